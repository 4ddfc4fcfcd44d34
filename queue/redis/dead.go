package priorityredis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Letter is a document that was given up. Its body is in the stream {Name}-dead.
type Letter struct {
	Customer, Document string    // "" where somebody else has added it without them
	Reason             string    // why it failed the last time
	Tries              int       // how often a worker had it
	At                 time.Time // when it was given up
	ID                 string    // of the entry in the stream {Name}-dead
}

// page is how many letters are read at a time: no other call waits for all of them.
const page = 20

// Dead returns the documents that were given up, the oldest first.
func (q *Queue) Dead(ctx context.Context) ([]Letter, error) {
	var letters []Letter
	for start := "-"; ; start = "(" + letters[len(letters)-1].ID {
		entries, err := q.client.XRangeN(ctx, q.dead, start, "+", page).Result()
		if err != nil {
			return nil, fmt.Errorf("priorityredis: read %s: %w", q.dead, err)
		}
		for _, entry := range entries {
			letters = append(letters, letterOf(entry))
		}
		if len(entries) < page {
			return letters, nil
		}
	}
}

func letterOf(entry redis.XMessage) Letter {
	letter := Letter{
		Customer: field(entry, "customer"), Document: field(entry, "document"), Reason: field(entry, "why"), ID: entry.ID,
	}
	letter.Tries, _ = strconv.Atoi(field(entry, "tries"))
	milliseconds, _, _ := strings.Cut(entry.ID, "-")
	if at, err := strconv.ParseInt(milliseconds, 10, 64); err == nil {
		letter.At = time.UnixMilli(at)
	}
	return letter
}

func field(entry redis.XMessage, name string) string {
	text, _ := entry.Values[name].(string)
	return text
}

// Retry puts a document that was given up back into the queue, in one step: a new Submit
// gives it the level that its customer has now, and it has all its tries again. One without
// customer or id, or with one that the store refuses, goes back to the queue that it was in. A letter that is gone, since somebody
// else has retried it, is left alone. After an error, call it again.
func (q *Queue) Retry(ctx context.Context, letter Letter) error {
	if err := q.retry(ctx, letter.ID); err != nil {
		return fmt.Errorf("priorityredis: retry %q, %s of %s: %w", letter.Document, letter.ID, q.dead, err)
	}
	return nil
}

func (q *Queue) retry(ctx context.Context, id string) error {
	entries, err := q.client.XRange(ctx, q.dead, id, id).Result()
	if err != nil || len(entries) == 0 {
		return err
	}
	letter, level := letterOf(entries[0]), field(entries[0], "queue")
	submitted := isSubmitted(letter.Customer, letter.Document)
	if submitted {
		level, err = q.submit(ctx, letter.Customer, letter.Document, []byte(field(entries[0], "body")+field(entries[0], "element")))
	} else if !slices.Contains(q.queues, level) {
		level = q.queues[len(q.queues)-1]
	}
	if err != nil {
		return err
	}
	isBack, err := q.run(ctx, "retry", []string{q.dead, level}, id).Bool()
	if err == nil && !isBack && submitted { // somebody else's Retry: its document may be done before this Submit
		err = q.store.Done(ctx, letter.Customer, letter.Document, 0)
	}
	return err
}

package priorityrabbitmq

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Letter is a document that was given up, or a message that somebody else has put among
// the dead letters; of that is known what it says.
type Letter struct {
	ID       string // by which Retry finds it
	Customer string
	Document string
	Reason   string
	Tries    int       // how often it was begun, as far as is known
	At       time.Time // when it was given up; zero: not known
}

// ErrNoLetter: the letter is not there, or not any more.
var ErrNoLetter = errors.New("priorityrabbitmq: no such dead letter")

const (
	headerReason = "priority-reason" // why it was given up
	headerTries  = "priority-tries"
	headerAt     = "priority-dead-at"
)

// Dead returns the documents that were given up, the oldest first. They stay where they
// are. A document that is there twice, because its worker was lost while it gave it up, is
// one letter from then on.
func (q *Queue) Dead(ctx context.Context) ([]Letter, error) {
	var letters []Letter
	seen := make(map[string]bool)
	err := q.eachDead(ctx, func(delivery *amqp.Delivery) (bool, error) {
		letter := letterOf(delivery)
		if letter.Document != "" && seen[letter.ID] {
			return false, acknowledge(delivery)
		}
		seen[letter.ID] = true
		letters = append(letters, letter)
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	return letters, nil
}

// Retry puts a dead letter into the queue again, at the level that its customer has now,
// with all tries before it. The letter is removed when RabbitMQ has confirmed that the queue
// has the document. A letter that is not there is an error, [ErrNoLetter]: of two who
// retry it one gets that. If the server or the process is lost between the confirmation and the
// removal, the letter is still there: retried again, the document is served twice.
func (q *Queue) Retry(ctx context.Context, letter Letter) error {
	found := false
	err := q.eachDead(ctx, func(delivery *amqp.Delivery) (bool, error) {
		if letterOf(delivery).ID != letter.ID {
			return false, nil
		}
		found = true
		return true, q.retry(ctx, delivery)
	})
	if err == nil && !found {
		err = ErrNoLetter
	}
	return err
}

func (q *Queue) retry(ctx context.Context, delivery *amqp.Delivery) error {
	message := again(delivery)
	if err := q.Publish(ctx, "", q.name, message, Of(*delivery)); err != nil {
		return err
	}
	return acknowledge(delivery)
}

// eachDead calls visit with each dead letter until it says stop, or errs. Nobody else, in
// whatever process, is at the letters meanwhile.
func (q *Queue) eachDead(ctx context.Context, visit func(*amqp.Delivery) (stop bool, err error)) error {
	q.dead.Lock()
	defer q.dead.Unlock()
	unlock, err := q.lockDead(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	l, err := q.consuming.open(ctx)
	if err != nil {
		return err
	}
	defer l.Close() // what was not acknowledged is back then
	for ctx.Err() == nil {
		stop := hurry(l.connection)
		delivery, ok, err := l.Get(q.deadQueue(), false)
		stop()
		if err != nil || !ok {
			return err
		}
		if stop, err := visit(&delivery); stop || err != nil {
			return err
		}
	}
	return ctx.Err()
}

// lockDead locks the dead letters for this connection: by an exclusive queue, which ends
// with the connection.
func (q *Queue) lockDead(ctx context.Context) (unlock func(), err error) {
	name := q.deadQueue() + ".lock"
	for ctx.Err() == nil {
		l, err := q.consuming.open(ctx)
		if err != nil {
			return nil, err
		}
		stop := hurry(l.connection)
		const durable, autoDelete, exclusive, noWait = false, false, true, false
		_, err = l.QueueDeclare(name, durable, autoDelete, exclusive, noWait, amqp.Table{"x-queue-type": "classic"})
		stop()
		if err == nil {
			return func() {
				defer hurry(l.connection)()
				_, _ = l.QueueDelete(name, false, false, noWait)
				_ = l.Close()
			}, nil
		}
		_ = l.Close()
		if !isRefused(err, amqp.ResourceLocked) {
			return nil, fmt.Errorf("priorityrabbitmq: lock the dead letters: %w", err)
		}
		_ = sleep(ctx, pause/5) // another looks at them
	}
	return nil, ctx.Err()
}

func letterOf(delivery *amqp.Delivery) Letter {
	document := Of(*delivery)
	letter := Letter{Customer: document.Customer, Document: document.ID, Reason: text(delivery, headerReason)}
	letter.At, _ = delivery.Headers[headerAt].(time.Time)
	letter.Tries = cmp.Or(count(delivery, headerTries), count(delivery, headerFailed)+count(delivery, headerLost))
	if deaths, _ := delivery.Headers["x-death"].([]any); len(deaths) > 0 && letter.Reason == "" { // by the server
		death, _ := deaths[0].(amqp.Table)
		letter.Reason, _ = death["reason"].(string)
		letter.At, _ = death["time"].(time.Time)
	}
	hash := sha256.New()
	if letter.Document != "" {
		fmt.Fprintf(hash, "%q %q", letter.Customer, letter.Document)
	} else {
		fmt.Fprintf(hash, "%q %v %q", delivery.MessageId, delivery.Timestamp.Unix(), delivery.Body)
	}
	letter.ID = hex.EncodeToString(hash.Sum(nil)[:16])
	return letter
}

package prioritynats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The further headers of a message that was given up.
const (
	reasonHeader  = "Priority-Reason"
	triesHeader   = "Priority-Tries"
	subjectHeader = "Priority-Subject" // the subject that it had
)

func deadName(name string) string { return name + "-dead" }

// reserve is the room in a message for what it gets when it is given up.
const reserve = 1 << 10

// Letter is a message that was given up. Its body and headers are in the stream Name-dead.
type Letter struct {
	Customer, Document string    // "" of a message that Publish has not made
	Reason             string    // why it failed the last time
	Tries              int       // how often it was delivered
	At                 time.Time // when it was given up
	Sequence           uint64    // its number in the stream Name-dead
}

// bury puts a message where those that were given up are, and goes on until it is there or
// is refused. A second copy, after a crash in between, is recognized by the message's
// number and time: the numbers of a stream that is made again begin again.
func (q *Queue) bury(ctx context.Context, message jetstream.Msg, reason error, tries int) error {
	metadata, err := message.Metadata()
	if err != nil {
		return err
	}
	id := fmt.Sprint(metadata.Sequence.Stream, " ", metadata.Timestamp.UnixNano())
	dead := &nats.Msg{Subject: deadName(q.options.Name), Data: message.Data(), Header: ownHeaders(message.Headers())}
	dead.Header.Set(reasonHeader, reason.Error()[:min(len(reason.Error()), reserve/2)])
	dead.Header.Set(triesHeader, strconv.Itoa(tries))
	dead.Header.Set(subjectHeader, message.Subject())
	var refusal error
	err = q.insist(ctx, "give a document up", func(ctx context.Context) error {
		_, err := q.jetStream.PublishMsg(ctx, dead, jetstream.WithMsgID(id))
		if full := isAnswer(err) && !errors.Is(err, jetstream.ErrNoStreamResponse); full || errors.Is(err, nats.ErrMaxPayload) {
			refusal, err = err, nil
		}
		return err
	})
	return errors.Join(err, refusal)
}

// ownHeaders returns a message's headers without what they tell the server.
func ownHeaders(headers nats.Header) nats.Header {
	own := make(nats.Header)
	for name, values := range headers {
		if !strings.HasPrefix(name, "Nats-") {
			own[name] = values
		}
	}
	return own
}

// Dead returns the messages that were given up until now, the oldest first.
func (q *Queue) Dead(ctx context.Context) ([]Letter, error) {
	letters, err := q.dead(ctx)
	if err != nil {
		return nil, fmt.Errorf("prioritynats: read %s: %w", deadName(q.options.Name), err)
	}
	return letters, nil
}

// dead reads one at a time. A consumer would wait for one that another process has put back
// meanwhile.
func (q *Queue) dead(ctx context.Context) (letters []Letter, err error) {
	stream, err := q.jetStream.Stream(ctx, deadName(q.options.Name)) // with what it has now
	if err != nil {
		return nil, err
	}
	now := stream.CachedInfo().State
	for sequence := now.FirstSeq; sequence <= now.LastSeq; sequence++ {
		message, err := stream.GetMsg(ctx, sequence, jetstream.WithGetMsgSubject(deadName(q.options.Name)))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound): // nor any after it
			return letters, nil
		case err != nil:
			return nil, err
		case message.Sequence > now.LastSeq:
			return letters, nil
		}
		letter := Letter{Reason: message.Header.Get(reasonHeader), At: message.Time, Sequence: message.Sequence}
		letter.Customer, letter.Document = Identity(message.Header)
		letter.Tries, _ = strconv.Atoi(message.Header.Get(triesHeader))
		letters = append(letters, letter)
		sequence = message.Sequence
	}
	return letters, nil
}

// Retry puts a message that was given up back into the queue: a new Submit gives it the
// level that its customer has now, and it has all its tries again. It leaves Name-dead when
// the queue has it. One that Publish has not made goes to the subject that it had. A letter
// that is gone, since somebody else has retried it, is left alone.
//
// If Retry returns an error, the queue may have the message: retry it again within
// Duplicates, or it may be there twice.
func (q *Queue) Retry(ctx context.Context, letter Letter) error {
	ctx, cancel := context.WithTimeout(ctx, q.options.Duplicates/2) // two who retry it at once are recognized
	defer cancel()
	if err := q.retry(ctx, letter); err != nil {
		return fmt.Errorf("prioritynats: retry %q, number %d of %s: %w", letter.Document, letter.Sequence, deadName(q.options.Name), err)
	}
	return nil
}

func (q *Queue) retry(ctx context.Context, letter Letter) error {
	stream, err := q.jetStream.Stream(ctx, deadName(q.options.Name))
	if err != nil {
		return err
	}
	isGone := func() (*jetstream.RawStreamMsg, bool, error) {
		message, err := stream.GetMsg(ctx, letter.Sequence)
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && !message.Time.Equal(letter.At) {
			return nil, true, nil
		}
		return message, false, err
	}
	message, gone, err := isGone()
	if gone || err != nil {
		return err
	}
	again := &nats.Msg{Subject: message.Header.Get(subjectHeader), Data: message.Data, Header: ownHeaders(message.Header)}
	for _, name := range []string{reasonHeader, triesHeader, subjectHeader} {
		again.Header.Del(name)
	}
	// With an id of its own: under the old one it may be taken for a duplicate.
	again.Header.Set(jetstream.MsgIDHeader, fmt.Sprint(deadName(q.options.Name), " ", message.Sequence, " ", message.Time.UnixNano()))
	switch customer, document := Identity(message.Header); {
	case customer != "":
		_, err = q.publish(ctx, customer, document, again)
	case again.Subject == "":
		err = errors.New("it has no header " + subjectHeader)
	default:
		err = q.insist(ctx, "publish a document", func(ctx context.Context) error {
			_, err := q.jetStream.PublishMsg(ctx, again)
			return err
		})
	}
	if err != nil {
		return err
	}
	if err := stream.DeleteMsg(ctx, letter.Sequence); err != nil {
		if _, gone, _ := isGone(); !gone {
			return err
		}
	}
	return nil
}

package queue

import (
	"strconv"

	"github.com/docpriority/priority"
)

// NATSSubject returns the subject for a level's documents in NATS JetStream, such
// as documents.3. The stream takes prefix.*, and each level has a durable consumer
// with its subject as the filter.
//
// Whether the lowest level starves is the [priority.Picker]'s affair, which chooses
// the consumer to fetch from: the zero Picker lets it starve, one with weights does
// not.
//
// Prefetch: Fetch one document at a time, when a worker is free; a consumer's
// Consume and Messages hold 500 by default. MaxAckPending bounds what all workers
// hold of a level, and has to be at least their number.
//
// Retries: a document that is not acknowledged (Nak, or AckWait has passed) comes
// back on its own subject, so its level stays, and before those that were not yet
// delivered.
func NATSSubject(prefix string, level, lowest priority.Level) string {
	return prefix + "." + strconv.Itoa(int(clamp(level, lowest)))
}

// NATSSubjects returns the subjects of all levels, that of level 1 first.
func NATSSubjects(prefix string, lowest priority.Level) []string {
	return each(prefix, lowest, NATSSubject)
}

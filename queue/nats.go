package queue

import (
	"strconv"

	"github.com/docpriority/priority"
)

// NATSSubject returns the subject for a level's documents in NATS JetStream, such
// as documents.3. The stream takes prefix.*, and each level has a durable consumer
// with its subject as the filter.
//
// Whether the last level starves depends on the [Picker] that chooses the consumer
// to fetch from: the zero Picker lets it starve, one with weights does not.
func NATSSubject(prefix string, level, last priority.Level) string {
	return prefix + "." + strconv.Itoa(int(clamp(level, last)))
}

// NATSSubjects returns the subjects of all levels, level 1 first.
func NATSSubjects(prefix string, last priority.Level) []string {
	return each(prefix, last, NATSSubject)
}

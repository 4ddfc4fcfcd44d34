package script

import "time"

// PeekReplies is how many numbers lua/peek.lua replies.
const PeekReplies = 11

// Peeked is what lua/peek.lua replies: all that is known of a customer.
type Peeked struct {
	Level     int64
	Count     int64
	Pending   int64
	ResetIn   time.Duration
	Ordinary  int64         // pending, without documents at the last level
	Cost      int64         // of a document, in thousandths of the average
	Lease     time.Duration // after which a document does not count as pending
	Sojourn   time.Duration // from Submit to Done, on average; 0: not known
	UsageLeft time.Duration // until the usage is forgotten
	HasUsage  bool
	HasCount  bool
	CountLeft time.Duration // until the count is; negative: the key has no TTL
}

// PeekedOf reads a reply of lua/peek.lua.
func PeekedOf(reply []int64) Peeked {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	return Peeked{
		Level: reply[0], Count: reply[1], Pending: reply[2], ResetIn: ms(reply[3]), Ordinary: reply[5], Cost: reply[6], Lease: ms(reply[7]),
		Sojourn: 100 * ms(reply[8]), UsageLeft: max(ms(reply[9]), 0), HasUsage: reply[9] != -2, HasCount: reply[10] != -2, CountLeft: ms(reply[10]),
	}
}

package lua

// PeekIntegers is how many integers peek.lua replies.
const PeekIntegers = 20

// Peeked is what peek.lua replies; its head says what the numbers are.
type Peeked struct {
	Rule, Level, NextLevel, Count, ResetIn, Load, Recent, Cost, Pending, PendingFlood, Oldest, Latency, Lease,
	RuleLevel, Earliest, Latest, EndsIn, Scheduled, AccountLoad, AccountFlood int64
}

// PeekedOf reads a reply of peek.lua.
func PeekedOf(r []int64) Peeked {
	return Peeked{r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11], r[12], r[13], r[14], r[15], r[16], r[17], r[18], r[19]}
}

package page

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"github.com/docpriority/priority"
)

// Options configures a Page. The zero value works, and lets nobody write.
type Options struct {
	// Store has the options of the fleet's workers: Policy, Tiers, TierOf, Prefix and
	// Lease. The page decides by them if operators have set nothing. Default: the
	// defaults of priority.RedisOptions, except a Timeout of 2 s.
	Store priority.RedisOptions

	// Levels is how many levels the queue was declared with: what operators set may not
	// have more. Default: as many as Store's policy has.
	Levels priority.Level

	// Authorize names who has sent a request, of 1 to control.MaxByBytes bytes, and
	// reports whether they may write. It is asked at every request, by several
	// goroutines at a time. Default: nobody may write.
	Authorize func(r *http.Request) (actor string, ok bool)

	// Title is the page's title. Default: "Priorities".
	Title string

	// Interval is how long a reading is shown, to however many people, before Redis is
	// asked again: 100 ms to 1 min. Default: 2 s.
	Interval time.Duration

	// Pace is how many keys a second a pass through all customers looks at. Default:
	// 10,000.
	Pace int

	// Server says where the client leads. Default: what the client's options say.
	Server Server

	// Secrets are passwords that no text may show. Default: none. What looks like a
	// password in a URL is always hidden.
	Secrets []string
}

// filled returns the options with the defaults. An error wraps
// [priority.ErrInvalidOption].
func (o Options) filled() (Options, error) {
	o.Title = cmp.Or(o.Title, "Priorities")
	o.Interval = cmp.Or(o.Interval, 2*time.Second)
	o.Pace = cmp.Or(o.Pace, 10_000)
	o.Store.Overrides = true
	o.Store.Timeout = cmp.Or(o.Store.Timeout, 2*time.Second)
	switch {
	case o.Interval < 100*time.Millisecond || o.Interval > time.Minute:
		return o, fmt.Errorf("page: %w: Interval %v is not from 100ms to 1m", priority.ErrInvalidOption, o.Interval)
	case o.Pace < 0:
		return o, fmt.Errorf("page: %w: Pace %d is negative", priority.ErrInvalidOption, o.Pace)
	}
	return o, nil
}

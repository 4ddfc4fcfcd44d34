package main

import (
	"fmt"
	"testing"
)

// A URL names servers, a login and a database, and is shown without its password.
func TestParseURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"redis://u:p%2Fw@h/3":                      "redis://u@h/3: [h:6379] 3 u p/w  false false",
		"rediss://:pw@[::1]:7":                     "rediss://[::1]:7: [[::1]:7] 0  pw  false true",
		"unix:///run/redis.sock":                   "unix:///run/redis.sock: [/run/redis.sock] 0    false false",
		"redis+cluster://u:p@a:1,b,c:3?protocol=2": "redis+cluster://u@a:1,b,c:3: [a:1 b:6379 c:3] 0 u p  true false",
		"rediss+sentinel://u:p@a,b:7/main/2":       "rediss+sentinel://u@a,b:7/main/2: [a:26379 b:7] 2 u p main false true",
		"redis://a,b":                              "",
		"unix+cluster://a":                         "",
		"redis+sentinel://a":                       "",
		"redis://u:p/@h":                           "",
	} {
		got := ""
		if o, shown, err := parseURL(text); err == nil {
			got = fmt.Sprintf("%s: %s %d %s %s %s %v %v", shown, o.Addrs, o.DB, o.Username, o.Password, o.MasterName, o.IsClusterMode, o.TLSConfig != nil)
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

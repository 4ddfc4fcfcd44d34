package fair

import (
	"fmt"
	"math/big"
	"os"
	"regexp"
	"strings"
	"testing"
)

// What else states the default loads is changed with them.
func TestLoads_Stated(t *testing.T) {
	t.Parallel()
	loads := strings.Trim(fmt.Sprint(Loads(9)), "[]")
	stated := regexp.MustCompile(`\b` + strings.ReplaceAll(loads, " ", `\W+`) + `\b`)
	for _, file := range []string{
		"README.md", "docs/rules.md", "priority.go", "policy.go", "vectors/README.md",
		"clients/python/src/docpriority/_policy.py", "clients/nodejs/src/policy.js", "clients/nodejs/src/index.d.ts",
	} {
		if text, err := os.ReadFile("../../" + file); err != nil || !stated.Match(text) {
			t.Errorf("%s does not state the default loads %s (%v)", file, loads, err)
		}
	}
}

// The begin of each turn is the least n with n^turns ≥ 4096^turn.
func TestTurns_Exact(t *testing.T) {
	t.Parallel()
	power := func(n int64, turns int) *big.Int {
		return new(big.Int).Exp(big.NewInt(n), big.NewInt(int64(turns)), nil)
	}
	for turns := 1; turns <= 254; turns++ {
		for i, begin := range Turns(turns) {
			bound := power(4096, i+1)
			if power(begin, turns).Cmp(bound) < 0 || power(begin-1, turns).Cmp(bound) >= 0 {
				t.Errorf("turn %d of %d begins at %d", i+1, turns, begin)
			}
		}
	}
}

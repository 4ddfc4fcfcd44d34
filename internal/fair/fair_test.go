package fair

import (
	"math/big"
	"testing"
)

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

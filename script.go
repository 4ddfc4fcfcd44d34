package priority

import (
	"crypto/sha1"
	_ "embed" // the scripts
	"encoding/hex"
	"fmt"
	"strings"
)

var (
	//go:embed lua/next.lua
	nextLua string
	//go:embed lua/peek.lua
	peekLua string
	//go:embed lua/reset.lua
	resetLua string
	//go:embed lua/submit.lua
	submitLua string
	//go:embed lua/done.lua
	doneLua string
	//go:embed lua/pending.lua
	pendingLua string

	resetScript = newScript(resetLua, 1)
	doneScript  = newScript(doneLua, 1)
)

// script is a Lua text and the digest by which EVALSHA names it. Both are kept
// as any so that a call does not box them again.
type script struct {
	text, digest any
	integers     int // in its reply, at least
}

func newScript(text string, integers int) *script {
	sum := sha1.Sum([]byte(text))
	return &script{text: text, digest: hex.EncodeToString(sum[:]), integers: integers}
}

// render writes the policy's numbers into a script's text. As constants they
// cost Redis less than as arguments.
func render(lua string, policy Policy) string {
	lua = replaceBlock(lua, "policy", fmt.Sprintf(
		"local interval = '%d'\nlocal since_last_reset = %t\n",
		policy.resetInterval().Milliseconds(), policy.ResetMode == SinceLastReset))

	var levels strings.Builder
	levels.WriteString("local level = 1\n")
	writeLevels(&levels, "", policy.thresholds(), Highest)
	return replaceBlock(lua, "levels", levels.String())
}

// replaceBlock replaces the lines between "-- begin name" and "-- end name",
// in a text that has them.
func replaceBlock(lua, name, lines string) string {
	begin, end := "-- begin "+name+"\n", "-- end "+name+"\n"
	before, rest, found := strings.Cut(lua, begin)
	if !found {
		return lua
	}
	_, after, _ := strings.Cut(rest, end)
	return before + begin + lines + end + after
}

// writeLevels writes the comparisons that find a count's level, where best is
// the level of a count that is below none of the thresholds. Many thresholds
// are halved first, so that a long table costs few comparisons.
func writeLevels(w *strings.Builder, indent string, thresholds []int64, best Level) {
	const chain = 8
	if len(thresholds) <= chain {
		for i := len(thresholds) - 1; i >= 0; i-- {
			keyword := "elseif"
			if i == len(thresholds)-1 {
				keyword = "if"
			}
			fmt.Fprintf(w, "%s%s count < %d then level = %d\n", indent, keyword, thresholds[i], int(best)+i+1)
		}
		if len(thresholds) > 0 {
			fmt.Fprintf(w, "%send\n", indent)
		}
		return
	}
	half := len(thresholds) / 2
	below := best + Level(half) + 1
	fmt.Fprintf(w, "%sif count < %d then\n%s  level = %d\n", indent, thresholds[half], indent, below)
	writeLevels(w, indent+"  ", thresholds[half+1:], below)
	fmt.Fprintf(w, "%selse\n", indent)
	writeLevels(w, indent+"  ", thresholds[:half], best)
	fmt.Fprintf(w, "%send\n", indent)
}

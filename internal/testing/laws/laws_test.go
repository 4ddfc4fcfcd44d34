package laws

import (
	"flag"
	"math/rand/v2"
	"testing"
)

var (
	howMany = flag.Int("laws.n", 0, "how many random sequences of each kind; 0: as many as take some seconds")
	seed    = flag.Uint64("laws.seed", 0, "the seed of the only sequence; 0: another one each time")
)

func TestMemory(t *testing.T) {
	testAll(t, openMemory)
	// The others decide as it does.
	t.Run("due later", func(t *testing.T) { random(t, openMemory, dueSequence, (*run).due) })
}

func TestRedisStore(t *testing.T) {
	testAll(t, openRedis)
	testFaults(t, openRedis)
}

func TestStack(t *testing.T) {
	testAll(t, openStack)
	testFaults(t, openStack)
}

// testAll tests the laws that need no faults.
func testAll(t *testing.T, open opener) {
	t.Run("policies", func(t *testing.T) { report(t, attempt(t, open, (*run).policies)) })
	t.Run("crowd", func(t *testing.T) { report(t, attempt(t, open, (*run).crowd)) })
	t.Run("as memory", func(t *testing.T) { random(t, open, exactSequence, (*run).exact) })
}

// testFaults tests those that do.
func testFaults(t *testing.T, open opener) {
	for name, check := range map[string]func(r *run){
		"everything hangs": (*run).everythingHangs, "one customer's node hangs": (*run).oneHangs,
		"one customer's keys are corrupt": (*run).oneIsCorrupt,
	} {
		t.Run(name, func(t *testing.T) { report(t, attempt(t, open, check)) })
	}
	t.Run("random faults", func(t *testing.T) { random(t, open, faultySequence, (*run).faulty) })
	if testing.Short() { // with -race: the rest makes one call at a time
		return
	}
	t.Run("late Dones", func(t *testing.T) {
		for _, steps := range lateDones() {
			report(t, attempt(t, open, func(r *run) { r.faulty(steps) }))
		}
	})
}

// random tries sequences until one breaks a law, and shortens that one.
func random(t *testing.T, open opener, draw func(*rand.Rand) []step, do func(*run, []step)) {
	t.Helper()
	n := *howMany
	switch {
	case *seed > 0:
		n = 1
	case n == 0 && testing.Short():
		n = 2
	case n == 0:
		n = 30 // code that breaks a law is found by the twentieth, or sooner
	}
	try := func(steps []step) *violation { return attempt(t, open, func(r *run) { do(r, steps) }) }
	for number := range n {
		seed := *seed
		if seed == 0 {
			seed = rand.Uint64()
		}
		steps := draw(rand.New(rand.NewPCG(seed, 0)))
		found := try(steps)
		if found == nil {
			continue
		}
		for at := 0; at < len(steps); { // without each step that is not needed
			fewer := append(append([]step(nil), steps[:at]...), steps[at+1:]...)
			if again := try(fewer); again != nil && again.law == found.law {
				steps, found = fewer, again
			} else {
				at++
			}
		}
		t.Fatalf("sequence %d, -laws.seed %d: %v", number+1, seed, found)
	}
}

func report(t *testing.T, found *violation) {
	t.Helper()
	if found != nil {
		t.Error(found)
	}
}

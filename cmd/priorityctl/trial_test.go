package main

import (
	"sync"
	"testing"
	"time"
)

// Each incident is named with its cause within a minute, by status and by one more command, and
// nothing is said that the book of the fleet does not bear out. Where there is a remedy, all is well
// after it.
func TestTrial(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	room := make(chan struct{}, 10) // they wait more than they compute
	for _, trial := range trials {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			t.Run(trial.name, func(t *testing.T) { trial.happens(newTrial(t)) })
		})
	}
	all.Wait()
}

// trials are all, those first that take longest.
var trials = []struct {
	name    string
	happens func(*trial)
}{
	{"slow", slow}, {"none", none}, {"killed and hanging", killed}, {"many floods", manyFloods}, {"flood", flood}, {"many customers", manyCustomers},
	{"blame", blame}, {"Redis is full", full}, {"Redis is emptied", emptied}, {"Redis is older", older}, {"an override is lost", overrideLost}, {"Redis hangs", stopped}, {"a corrupt key", corrupt},
	{"corrupt policies", corruptPolicies}, {"cut off", cutOff}, {"other prefix", otherPrefix}, {"mistyped prefix", typo}, {"no Done", noDone},
	{"other policies", otherPolicies}, {"accounts", accounts}, {"a worker's clock", workersClock}, {"Redis's clock", redisClock}, {"a clock's step", clockStep},
	{"poison", poison}, {"overridden", overridden}, {"old override", oldOverride}, {"wrong calls", wrongCalls}, {"stuck", stuck},
}

// Three languages, and nothing is wrong.
func none(f *trial) {
	member, python, node := f.join("go"), f.startPython("python"), f.startNode("node")
	f.serve(2*time.Millisecond, allEnd, member, python, node)
	f.send(50*time.Millisecond, member, "acme", "bakery", "chemist")
	f.send(50*time.Millisecond, python, "deli", "bakery", "estate")
	f.send(50*time.Millisecond, node, "acme", "forge", "estate")
	f.schedule(member, "acme", 20)
	f.underWay()
	f.names()
	f.numbersAreRight()
}

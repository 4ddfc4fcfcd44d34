//go:build race

package priority_test

const raceEnabled = true

package fleet

import (
	"testing"
	"time"
)

// ReportEvery sets how often members report, until the test ends.
func ReportEvery(t testing.TB, every time.Duration) {
	before := reportEvery
	reportEvery = every
	t.Cleanup(func() { reportEvery = before })
}

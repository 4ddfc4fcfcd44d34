// Package other_modules has no tests, so that the last lines of "go test ./..." say
// of the other modules what is true of them: no tests to run. "go test work" runs
// the tests of all modules of go.work.
package other_modules

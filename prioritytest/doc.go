// Package prioritytest has what the tests of a program that uses package priority
// need: a store in memory on a clock that the test moves, a store that fails as it is
// told to, and a recorder of calls. It talks to no server. [TestStore] checks that a
// Store keeps the laws that every Store of the module keeps.
//
// In a bubble of testing/synctest a plain memory.Store does without the clock: time
// moves there by itself.
//
// Invalid arguments panic.
package prioritytest

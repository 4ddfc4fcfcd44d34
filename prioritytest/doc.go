// Package prioritytest has what the tests of a program that uses package
// priority need: stores in memory on a clock that the test moves, stores and
// trackers that fail as they are told to, and a recorder of calls. It talks to no
// server.
//
// In a bubble of testing/synctest a plain [priority.MemoryStore] does without
// the clock: time moves there by itself.
//
// What a test tells these helpers wrongly is a mistake in the test: they panic.
package prioritytest

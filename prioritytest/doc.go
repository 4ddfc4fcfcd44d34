// Package prioritytest helps test programs that use package priority. It has an
// in-memory store on a clock that the test moves, a store that fails on demand, and a
// recorder of calls. It needs no server.
//
// In a bubble of testing/synctest a plain memory.Store is enough: time moves there
// by itself.
//
// Invalid arguments panic.
package prioritytest

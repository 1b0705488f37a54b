// Package integration holds the tests that need a real Redis and several
// processes. Workers are the test binary, started again: see worker.
package integration

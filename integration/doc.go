// Package integration holds the tests that need a real Redis and several
// processes, and those that are about all packages. Workers are the test binary,
// started again: see worker.
package integration

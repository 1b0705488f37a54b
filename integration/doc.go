// Package integration holds tests that need a real Redis and several processes, and tests of all
// packages together. Worker processes are the test binary, started again: see worker.
package integration

// Package docs holds the pages about fleetpace. Their code is part of the examples in this
// folder and in the packages: a test compares them, and the examples run with all tests.
package docs

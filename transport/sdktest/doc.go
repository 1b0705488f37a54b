// Package sdktest proves that package transport works under a provider's own Go
// client. It is a module of its own, so that nobody who uses fleetpace downloads
// one.
package sdktest

// Package sdktest proves that packages transport and llm work under providers' own Go
// clients. It is a module of its own, so that nobody who uses fleetpace downloads
// one. The clients of Anthropic and Google take minutes to compile, so their tests have the build tag models.
package sdktest

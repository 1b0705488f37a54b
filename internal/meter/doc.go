// Package meter tells OpenTelemetry what becomes of the calls of this process, through the
// global MeterProvider.
//
// What happens is counted in plain numbers, which are read when somebody collects: while nobody
// does, a call costs a few additions. Only what is a distribution is told at once, and of calls
// that waited only. Attributes are names of limits and outcomes: never keys, flows and IDs, of
// which there may be any number.
package meter

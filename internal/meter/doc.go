// Package meter reports to OpenTelemetry how the calls of this process end, through the global
// MeterProvider.
//
// Events are counted in plain numbers, which are read when a collector collects. Without a collector, a
// call costs a few additions. Only distributions are recorded at once, and only for calls that waited.
// Attributes are names of limits and outcomes: never keys, flows and IDs, as there may be any number of
// them.
package meter

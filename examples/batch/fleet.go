package main

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/example"
	"github.com/fleetpace/fleetpace/llm"
	"github.com/fleetpace/fleetpace/reserve"
)

// The parent and its workers exchange JSON lines. A worker reads its setup from stdin and then
// records, one for each call that it may have in work. At the end of stdin it finishes its calls in
// flight and exits. It writes its reports to stdout.

// setup is the first line that a worker reads. It holds the Redis URL, because other users could
// read a password on the command line.
type setup struct {
	RedisURL    string         `json:"redis_url"`
	API         string         `json:"api"`
	Preset      llm.Preset     `json:"preset"`
	Outage      reserve.Policy `json:"outage"`
	Concurrency int            `json:"concurrency"`
}

// outcome is one line from a worker. Exactly one of Ready, Result and Fatal is set.
type outcome struct {
	Ready  bool            `json:"ready,omitempty"` // it has its connections, and can take records
	Result *example.Result `json:"result,omitempty"`
	Fatal  string          `json:"fatal,omitempty"` // why it exits

	Retried   int `json:"retried,omitempty"`
	Estimated int `json:"estimated,omitempty"` // tokens
	Used      int `json:"used,omitempty"`      // tokens
}

// killAfter is how long a worker may take to end before it is killed.
const killAfter = callTimeout + 2*time.Second

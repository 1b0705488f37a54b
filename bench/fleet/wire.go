package main

import "time"

// setup is what a member is told when it starts.
type setup struct {
	Contender string
	Redis     string // URL
	API       string // URL
	Handlers  int
	Polls     polls
	Limits    []limit
	Queues    []string      // of asynq
	BareEvery time.Duration // how often a bare caller calls
}

// note is a line of JSON on a member's stdout. Its times are those of the
// machine's clock, which all processes share.
type note struct {
	Kind    noteKind  `json:"k"`
	Task    string    `json:"t,omitempty"`
	At      time.Time `json:"a"`
	Promise time.Time `json:"p,omitzero"`
}

type noteKind string

const (
	ready    noteKind = "ready"    // the server runs
	entered  noteKind = "entered"  // a task entered the handler chain
	promised noteKind = "promised" // the limiter named the moment Promise to a task that goes back
)

// The headers of a call to the API.
const (
	taskHeader = "Fleet-Task"
	dueHeader  = "Fleet-Due" // Unix nanoseconds
)

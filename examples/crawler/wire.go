package main

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/example"
)

// The parent and its workers exchange JSON lines: a worker reads orders from stdin and writes reports to
// stdout. The end of stdin means that the parent is gone.

// setup is the first line that a worker reads. It holds the Redis URL, because other users could read a
// password on the command line.
type setup struct {
	RedisURL string   `json:"redis_url"`
	Run      string   `json:"run"`
	Name     string   `json:"name"` // the worker's name
	Hosts    []string `json:"hosts"`
	QPS      float64  `json:"qps"`
	PerHost  float64  `json:"per_host"`
	Metrics  string   `json:"metrics,omitempty"` // the address of the worker's metrics; in the parent, of the first worker's
}

// order is one line from the parent. Exactly one field is set.
type order struct {
	Setup *setup `json:"setup,omitempty"`
	Saved uint64 `json:"saved,omitempty"` // the page with this number is in the file
	Stop  bool   `json:"stop,omitempty"`
}

// report is one line from a worker. Exactly one field is set, except Number, which goes with Page.
type report struct {
	Page    *example.Page `json:"page,omitempty"`
	Number  uint64        `json:"number,omitempty"` // counts the pages of this worker from 1
	Request *request      `json:"request,omitempty"`
	Outcome visitResult   `json:"outcome,omitempty"`
	Busy    *int          `json:"busy,omitempty"` // visits under way, if the number has changed
	Note    string        `json:"note,omitempty"` // for the user
	Fatal   string        `json:"fatal,omitempty"`
}

// request is one request that was sent, whatever its result.
type request struct {
	At     time.Time `json:"at"`               // when it was sent
	Status int       `json:"status,omitempty"` // 0: no response
}

// visitResult says why a visited URL has no page.
type visitResult string

const (
	disallowed visitResult = "disallowed" // by robots.txt
	redirected visitResult = "redirected" // its target is on the frontier, if in scope
	notHTML    visitResult = "not_html"
	failed     visitResult = "failed" // given up after several attempts
)

package main

import "time"

// The parent and its workers talk in JSON lines: orders go down a worker's
// stdin, reports come up its stdout. The end of stdin tells a worker that its
// parent is gone.

// setup is the first line that a worker reads. The Redis URL travels here
// rather than on the command line, where others could read its password.
type setup struct {
	RedisURL string   `json:"redis_url"`
	Run      string   `json:"run"`
	Name     string   `json:"name"` // of this worker
	Hosts    []string `json:"hosts"`
	QPS      float64  `json:"qps"`
	PerHost  float64  `json:"per_host"`
	Metrics  string   `json:"metrics,omitempty"` // of the first worker; then of this one
}

// order is one line from the parent; exactly one field is set.
type order struct {
	Setup *setup `json:"setup,omitempty"`
	Saved uint64 `json:"saved,omitempty"` // the page with this number is in the file
	Stop  bool   `json:"stop,omitempty"`
}

// report is one line from a worker; exactly one field is set, but for Number,
// which goes with Page.
type report struct {
	Page    *page       `json:"page,omitempty"`
	Number  uint64      `json:"number,omitempty"` // counts the pages of this worker from 1
	Request *request    `json:"request,omitempty"`
	Outcome visitResult `json:"outcome,omitempty"`
	Busy    *int        `json:"busy,omitempty"` // visits in hand, when that changed
	Note    string      `json:"note,omitempty"` // for the person who watches
	Fatal   string      `json:"fatal,omitempty"`
}

// page is one line of the output file.
type page struct {
	URL       string    `json:"url"`
	Status    int       `json:"status"`
	Title     string    `json:"title"`
	Links     []string  `json:"links"`
	Bytes     int       `json:"bytes"`
	Depth     int       `json:"depth"`
	FetchedAt time.Time `json:"fetched_at"`
	Worker    string    `json:"worker"`
}

// request is one request that was sent, whatever came of it.
type request struct {
	At     time.Time `json:"at"`               // when it was sent
	Status int       `json:"status,omitempty"` // 0: no answer
}

// visitResult is how a URL left the frontier without a page.
type visitResult string

const (
	disallowed visitResult = "disallowed" // by robots.txt
	redirected visitResult = "redirected" // its target is on the frontier, if in scope
	notHTML    visitResult = "not_html"
	failed     visitResult = "failed" // given up after several attempts
)

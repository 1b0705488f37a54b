package example

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"sync"
	"time"
)

// The status of a record.
const (
	Done   = "done"
	Failed = "failed"
)

// Result is one line of the output.
type Result struct {
	ID       string          `json:"id"`
	Status   string          `json:"status"`
	Attempts int             `json:"attempts"` // calls of the run that wrote the line
	Answer   json.RawMessage `json:"answer,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// Journal is the output, and also the memory of what is done. Results are appended, one line each,
// and the next run reads them. If a record has several lines, the last one counts. It is safe for
// concurrent use within one process.
type Journal struct {
	file    *os.File
	closing chan struct{}
	synced  chan struct{} // closed when the last sync is over

	mu       sync.Mutex
	status   map[string]string // by ID
	unsynced bool
	broken   error // the first failure to write; nothing may follow half a line
}

// syncEvery is how long results may wait before they are synced to disk. A killed process loses
// none of them. A power failure loses at most these, and their records are called again with the
// same idempotency key.
const syncEvery = 100 * time.Millisecond

// OpenJournal opens or creates the journal at path. It cuts off a last line that a crash left
// incomplete, and returns its length in bytes as dropped. A file that is not a journal is an error
// that names the line, and stays unchanged.
func OpenJournal(path string) (j *Journal, dropped int64, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, 0, fmt.Errorf("-out: %w", err)
	}
	j = &Journal{
		file:    file,
		closing: make(chan struct{}),
		synced:  make(chan struct{}),
		status:  make(map[string]string),
	}
	dropped, err = j.load()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("-out %s: %w", path, err), file.Close())
	}
	go j.keepSyncing()
	return j, dropped, nil
}

func (j *Journal) load() (dropped int64, err error) {
	r := bufio.NewReaderSize(j.file, 64<<10)
	var whole int64 // bytes of whole lines
	for line := 1; ; line++ {
		text, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		torn := err != nil && len(text) > 0
		if body := bytes.TrimSpace(text); len(body) > 0 {
			res, parseErr := parseResult(body)
			switch {
			case parseErr == nil:
				j.status[res.ID] = res.Status
			case torn && line > 1 || torn && bytes.HasPrefix(body, []byte(`{"id":`[:min(len(body), 6)])):
				return int64(len(text)), j.file.Truncate(whole)
			default:
				return 0, fmt.Errorf("line %d is not a result (%w): is it a journal? Name another file or remove the line", line, parseErr)
			}
		}
		if torn { // the line is complete; only the line break is missing
			_, err := j.file.WriteString("\n")
			return 0, err
		}
		if err != nil {
			return 0, nil
		}
		whole += int64(len(text))
	}
}

func parseResult(line []byte) (Result, error) {
	var res Result
	if err := json.Unmarshal(line, &res); err != nil {
		return res, err
	}
	if res.ID == "" || (res.Status != Done && res.Status != Failed) {
		return res, fmt.Errorf("id %q, status %q", res.ID, res.Status)
	}
	return res, nil
}

// IsDone reports whether the record is done, in this run or an earlier one.
func (j *Journal) IsDone(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.status[id] == Done
}

// Statuses returns the status of each record, by ID.
func (j *Journal) Statuses() map[string]string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.status)
}

// Append writes one result. When it returns, the result is safe if the process ends, but not if the
// machine does.
func (j *Journal) Append(res Result) error {
	line, err := json.Marshal(res)
	if err != nil {
		return fmt.Errorf("journal: record %s: %w", res.ID, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return j.broken
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		j.broken = fmt.Errorf("journal: %w", err)
		return j.broken
	}
	j.status[res.ID] = res.Status
	j.unsynced = true
	return nil
}

// keepSyncing syncs results to the disk in groups, in the background: a slow disk must not keep
// calls from their turns.
func (j *Journal) keepSyncing() {
	defer close(j.synced)
	ticker := time.NewTicker(syncEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			j.sync()
		case <-j.closing:
			j.sync()
			return
		}
	}
}

func (j *Journal) sync() {
	j.mu.Lock()
	needed := j.unsynced && j.broken == nil
	j.unsynced = false // the next sync is for later results
	j.mu.Unlock()
	if !needed {
		return
	}
	if err := j.file.Sync(); err != nil {
		j.mu.Lock()
		j.broken = fmt.Errorf("journal: %w", err)
		j.mu.Unlock()
	}
}

// Close syncs all results. It returns all errors of the journal. Call it once, after the last
// append.
func (j *Journal) Close() error {
	close(j.closing)
	<-j.synced
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.broken, j.file.Close())
}

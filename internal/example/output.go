package example

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Output is the file of pages, one JSON line each, and each URL once. Only the parent writes to it;
// it is not safe for concurrent use.
type Output struct {
	file *os.File
	urls map[string]bool // URLs whose line is in the file
}

// OpenPages opens path for appending, so that a continued crawl completes its file. An empty path
// means a new temporary file. It cuts off an incomplete last line, which a crash leaves.
func OpenPages(path string) (*Output, error) {
	o := &Output{urls: make(map[string]bool)}
	var err error
	if path == "" {
		o.file, err = os.CreateTemp("", "fleetpace-crawl-*.jsonl")
	} else {
		o.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	}
	if err != nil {
		return nil, fmt.Errorf("-out: %w", err)
	}
	if err := o.readBack(); err != nil {
		_ = o.file.Close()
		return nil, err
	}
	return o, nil
}

// readBack reads the URLs of the file and seeks to its end.
func (o *Output) readBack() error {
	info, err := o.file.Stat()
	if err != nil {
		return fmt.Errorf("-out %s: %w", o.file.Name(), err)
	}
	if !info.Mode().IsRegular() {
		return nil // a device or a pipe cannot be read back
	}
	whole := int64(0) // length of the complete lines
	lines := bufio.NewReader(o.file)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if len(line) > 0 && line[0] != '{' {
				return o.notOurs(n)
			}
			break
		}
		if err != nil {
			return fmt.Errorf("-out %s: %w", o.file.Name(), err)
		}
		var p Page
		if json.Unmarshal(line, &p) != nil || p.URL == "" {
			return o.notOurs(n)
		}
		o.urls[p.URL] = true
		whole += int64(len(line))
	}
	if info.Size() > whole {
		if err := o.file.Truncate(whole); err != nil {
			return fmt.Errorf("-out %s: cut off the torn last line: %w", o.file.Name(), err)
		}
	}
	if _, err := o.file.Seek(whole, io.SeekStart); err != nil {
		return fmt.Errorf("-out %s: %w", o.file.Name(), err)
	}
	return nil
}

func (o *Output) notOurs(line int) error {
	return fmt.Errorf("-out %s: line %d is not a page of a crawl: name another file; this one is unchanged", o.file.Name(), line)
}

// Write appends the line of p and reports whether it is new. When it returns, the line survives the
// end of this process.
func (o *Output) Write(p *Page) (bool, error) {
	if o.urls[p.URL] {
		return false, nil
	}
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false) // addresses stay readable
	if err := enc.Encode(p); err != nil {
		return false, err
	}
	if _, err := o.file.Write(line.Bytes()); err != nil {
		return false, fmt.Errorf("-out %s: %w", o.file.Name(), err)
	}
	o.urls[p.URL] = true
	return true, nil
}

func (o *Output) Close() error { return o.file.Close() }

// Name is the path of the file.
func (o *Output) Name() string { return o.file.Name() }

// Page is one line of the output file.
type Page struct {
	URL       string    `json:"url"`
	Status    int       `json:"status"`
	Title     string    `json:"title"`
	Links     []string  `json:"links"`
	Bytes     int       `json:"bytes"`
	Depth     int       `json:"depth"`
	FetchedAt time.Time `json:"fetched_at"`
	Worker    string    `json:"worker"`
}

package example

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"
)

// sample is 500 addresses, made up.
//
//go:embed sample.csv
var sample []byte

// Record is the input of one call.
type Record struct {
	ID   string // the same in every run, so that no record is paid for twice
	Body []byte // the JSON object that is sent
}

// ReadInput reads the file of -in: "" is the sample, "-" is stdin.
func ReadInput(path, idField string) ([]Record, error) {
	switch path {
	case "":
		return readRecords(bytes.NewReader(sample), "sample.csv", "id")
	case "-":
		return readRecords(os.Stdin, "stdin", idField)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("-in: %w", err)
	}
	defer f.Close() // errors of a file that is only read do not matter
	return readRecords(f, path, idField)
}

// readRecords reads JSONL if r begins with "{", else CSV with a header. It reads to the end before
// it returns, so that an error in the last line is found before the first record is paid for.
// Errors name the file and the line.
func readRecords(r io.Reader, name, idField string) ([]Record, error) {
	in := &input{
		buf:     bufio.NewReaderSize(r, 64<<10),
		name:    name,
		idField: idField,
		lineOf:  make(map[string]int),
	}
	first, err := in.firstByte()
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: %w", name, err)
	case first == '[':
		return nil, fmt.Errorf("%s: is a JSON array: want one object per line (jq -c '.[]' makes it so)", name)
	case first == '{':
		err = in.readJSONL()
	default:
		err = in.readCSV()
	}
	if err != nil {
		return nil, err
	}
	if len(in.records) == 0 {
		return nil, fmt.Errorf("%s: holds no records", name)
	}
	return in.records, nil
}

type input struct {
	buf     *bufio.Reader
	name    string
	idField string
	records []Record
	lineOf  map[string]int // by ID
}

// firstByte returns the first byte that is not white space. It drops a byte order mark before it.
func (in *input) firstByte() (byte, error) {
	if bom, _ := in.buf.Peek(3); string(bom) == "\ufeff" {
		_, _ = in.buf.Discard(3) // Peek has read them, so it cannot fail
	}
	for n := 1; n <= in.buf.Size(); n++ {
		b, err := in.buf.Peek(n)
		if err != nil {
			return 0, err
		}
		if !bytes.ContainsRune([]byte(" \t\r\n"), rune(b[n-1])) {
			return b[n-1], nil
		}
	}
	return 0, nil
}

func (in *input) add(line int, id string, body []byte) error {
	switch {
	case id == "":
		return in.errorf(line, "field %q is empty: each record needs an ID; -id names the field that has it", in.idField)
	case len(id) > maxID:
		return in.errorf(line, "field %q has %d bytes: want at most %d", in.idField, len(id), maxID)
	case in.lineOf[id] > 0:
		return in.errorf(line, "field %q: %q is also the ID of line %d: IDs must be unique", in.idField, id, in.lineOf[id])
	}
	in.lineOf[id] = line
	in.records = append(in.records, Record{ID: id, Body: body})
	return nil
}

// maxID is the length that APIs commonly accept for an idempotency key.
const maxID = 255

func (in *input) errorf(line int, format string, args ...any) error {
	return fmt.Errorf("%s: line %d: %s", in.name, line, fmt.Sprintf(format, args...))
}

func (in *input) readCSV() error {
	r := csv.NewReader(in.buf)
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return in.csvError(err)
	}
	idColumn := -1
	seen := make(map[string]bool)
	for i, field := range header {
		if field == "" || seen[field] {
			return in.errorf(1, "column %d: name %q: want a name that no other column has", i+1, field)
		}
		seen[field] = true
		if field == in.idField {
			idColumn = i
		}
	}
	if idColumn < 0 {
		return in.errorf(1, "no column is named %q: -id names the one that holds the ID (columns: %q)", in.idField, header)
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return in.csvError(err)
		}
		line, _ := r.FieldPos(0)
		object := make(map[string]string, len(row))
		for i, field := range row {
			if !utf8.ValidString(field) {
				return in.errorf(line, "field %q is not UTF-8: convert the file first", header[i])
			}
			object[header[i]] = field
		}
		body, err := json.Marshal(object)
		if err != nil {
			return in.errorf(line, "%v", err)
		}
		if err := in.add(line, row[idColumn], body); err != nil {
			return err
		}
	}
}

func (in *input) csvError(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return in.errorf(parse.Line, "%v", parse.Err)
	}
	return fmt.Errorf("%s: %w", in.name, err)
}

func (in *input) readJSONL() error {
	for line := 1; ; line++ {
		text, err := in.buf.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: %w", in.name, err)
		}
		if body := bytes.TrimSpace(text); len(body) > 0 {
			if err := in.addJSON(line, body); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

func (in *input) addJSON(line int, body []byte) error {
	if !utf8.Valid(body) {
		return in.errorf(line, "is not UTF-8: convert the file first")
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(body, &object); err != nil {
		return in.errorf(line, "want one JSON object per line: %v", err)
	}
	raw, ok := object[in.idField]
	if !ok {
		return in.errorf(line, "has no field %q: -id names the one that holds the ID", in.idField)
	}
	var id any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // keeps 1e3 and 1000 different, and all digits of a long number
	if err := d.Decode(&id); err != nil {
		return in.errorf(line, "field %q: %v", in.idField, err)
	}
	switch id := id.(type) {
	case string:
		return in.add(line, id, body)
	case json.Number:
		return in.add(line, id.String(), body)
	default:
		return in.errorf(line, "field %q is %s: want a string or a number", in.idField, raw)
	}
}

package example

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadRecords(t *testing.T) {
	for name, tt := range map[string]struct {
		text, idField string
		want          map[string]string // ID to body
	}{
		"CSV": {
			"id,city\n1,Ulm\n2,\"Bath,\nEngland\"\n", "id",
			map[string]string{"1": `{"id":"1","city":"Ulm"}`, "2": `{"id":"2","city":"Bath,\nEngland"}`},
		},
		"CSV with another ID, a byte order mark and CRLF": {
			"\ufefforder,id\r\nA,7\r\nB,7\r\n", "order",
			map[string]string{"A": `{"order":"A","id":"7"}`, "B": `{"order":"B","id":"7"}`},
		},
		"CSV without a last line break": {
			"id\n1", "id", map[string]string{"1": `{"id":"1"}`},
		},
		"JSONL is passed on as it is": {
			"{\"id\":\"x\",\"n\":1.50,\"l\":[1]}\n\n  {\"id\":12345678901234567890}", "id",
			map[string]string{"x": `{"id":"x","n":1.50,"l":[1]}`, "12345678901234567890": `{"id":12345678901234567890}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			records, err := readRecords(strings.NewReader(tt.text), "in", tt.idField)
			require.NoError(t, err)
			got := make(map[string]string)
			for _, r := range records {
				got[r.ID] = string(r.Body)
			}
			require.Len(t, records, len(tt.want))
			for id, body := range tt.want {
				assert.JSONEq(t, body, got[id])
			}
			if strings.HasPrefix(name, "JSONL") {
				assert.Equal(t, tt.want, got)
			}
		})
	}
}

// TestMalformedInput proves that each mistake is an error which names the line.
func TestMalformedInput(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":                 {"", "in: holds no records"},
		"white space":             {" \n\n ", "in: "},
		"only a header":           {"id,city\n", "in: holds no records"},
		"CSV, too few fields":     {"id,city\n1,Ulm\n2\n", "in: line 3: wrong number of fields"},
		"CSV, bad quotes":         {"id,city\n1,Ulm\n2,a\"b\n", "in: line 3: bare"},
		"CSV, no such column":     {"key,city\n1,Ulm\n", `in: line 1: no column is named "id"`},
		"CSV, column twice":       {"id,city,city\n", `in: line 1: column 3: name "city"`},
		"CSV, column unnamed":     {"id,\n", `in: line 1: column 2: name ""`},
		"CSV, empty ID":           {"id,city\n1,Ulm\n,Bath\n", `in: line 3: field "id" is empty`},
		"CSV, ID twice":           {"id\n1\n2\n1\n", `in: line 4: field "id": "1" is also the ID of line 2`},
		"CSV, line after a break": {"id,t\n1,\"a\nb\"\n1,c\n", "in: line 4: "},
		"CSV, long ID":            {"id\n" + strings.Repeat("x", 256) + "\n", `in: line 2: field "id" has 256 bytes: want at most 255`},
		"CSV, Latin-1":            {"id,city\n1,K\xf6ln\n", `in: line 2: field "city" is not UTF-8`},
		"JSON array":              {"[{\"id\":1}]", "in: is a JSON array: want one object per line"},
		"JSONL, cut off":          {"{\"id\":1}\n{\"id\":2", "in: line 2: want one JSON object per line"},
		"JSONL, two in a line":    {"{\"id\":1} {\"id\":2}\n", "in: line 1: want one JSON object per line"},
		"JSONL, not an object":    {"{\"id\":1}\n\n17\n", "in: line 3: want one JSON object per line"},
		"JSONL, no ID":            {"{\"id\":1}\n{\"key\":2}\n", `in: line 2: has no field "id"`},
		"JSONL, empty ID":         {"{\"id\":\"\"}\n", `in: line 1: field "id" is empty`},
		"JSONL, ID null":          {"{\"id\":null}\n", `in: line 1: field "id" is null`},
		"JSONL, ID twice":         {"{\"id\":1}\n{\"id\":\"1\"}\n", `in: line 2: field "id": "1" is also the ID of line 1`},
		"JSONL, Latin-1":          {"{\"id\":\"\xe4\"}\n", "in: line 1: is not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readRecords(strings.NewReader(tt.text), "in", "id")
			require.ErrorContains(t, err, tt.want)
		})
	}
	_, err := ReadInput("no-such-file.csv", "id")
	assert.ErrorContains(t, err, "no-such-file.csv")
}

// TestSample proves that the sample is fit for the demo API, whatever -id says.
func TestSample(t *testing.T) {
	records, err := ReadInput("", "other")
	require.NoError(t, err)
	assert.Len(t, records, 500)
}

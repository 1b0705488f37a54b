package server_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

// The page is what all answers of the tests are held against: each has a status and a body that
// it documents, and in the end each status that it documents has been seen.

// page is openapi.yaml.
type page struct {
	doc      map[string]any
	compiler *jsonschema.Compiler

	mu   sync.Mutex
	seen map[string]bool // operation and status
}

var documented = readPage()

func readPage() *page {
	text, err := os.ReadFile("openapi.yaml")
	p := &page{seen: map[string]bool{}, compiler: jsonschema.NewCompiler()}
	if err == nil {
		err = yaml.Unmarshal(text, &p.doc)
	}
	if err == nil {
		err = p.compiler.AddResource("page.json", p.doc)
	}
	if err != nil {
		panic(err)
	}
	return p
}

// at follows a reference, if there is one.
func (p *page) at(pointer string) (map[string]any, string) {
	var node any = p.doc
	for _, step := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		if list, ok := node.([]any); ok {
			i, _ := strconv.Atoi(step)
			node = list[i]
		} else {
			node = node.(map[string]any)[step]
		}
		if node == nil {
			return nil, pointer
		}
	}
	object := node.(map[string]any)
	if ref, ok := object["$ref"].(string); ok {
		return p.at(strings.TrimPrefix(ref, "#"))
	}
	return object, pointer
}

// operation finds what the page says of a request.
func (p *page) operation(method string, at *url.URL) string {
	path := at.Path
	if strings.HasPrefix(path, "/v1/limits/") {
		path = "/v1/limits/{name}"
	}
	return "/paths/" + strings.ReplaceAll(path, "/", "~1") + "/" + strings.ToLower(method)
}

// check holds an answer against the page.
func (p *page) check(t testing.TB, method string, at *url.URL, w *httptest.ResponseRecorder) {
	operation := p.operation(method, at)
	answer, pointer := p.at(operation + "/responses/" + strconv.Itoa(w.Code))
	if answer == nil {
		t.Errorf("%s %s: status %d is not documented: %s", method, at, w.Code, w.Body)
		return
	}
	p.mu.Lock()
	p.seen[operation+" "+strconv.Itoa(w.Code)] = true
	p.mu.Unlock()
	headers, _ := answer["headers"].(map[string]any)
	for name := range headers {
		require.NotEmpty(t, w.Header().Get(name), "%s %s: %d has %s", method, at, w.Code, name)
	}
	content, _ := answer["content"].(map[string]any)
	if content == nil {
		require.Empty(t, w.Body.String(), "%s %s: %d", method, at, w.Code)
		return
	}
	kind, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
	require.Contains(t, slices.Collect(maps.Keys(content)), kind, "%s %s: %d", method, at, w.Code)
	if !strings.HasSuffix(kind, "json") {
		return
	}
	p.mu.Lock()
	schema, err := p.compiler.Compile("page.json#" + pointer + "/content/" + strings.ReplaceAll(kind, "/", "~1") + "/schema")
	p.mu.Unlock()
	require.NoError(t, err)
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
	require.NoError(t, err, w.Body)
	require.NoError(t, schema.Validate(body), "%s %s: %d %s", method, at, w.Code, w.Body)
}

// unseen are the documented statuses that no test has seen.
func (p *page) unseen() (all []string) {
	for path, item := range p.doc["paths"].(map[string]any) {
		for method, operation := range item.(map[string]any) {
			about, ok := operation.(map[string]any)
			if !ok {
				continue
			}
			for status := range about["responses"].(map[string]any) {
				name := "/paths/" + strings.ReplaceAll(path, "/", "~1") + "/" + method + " " + status
				if !p.seen[name] {
					all = append(all, name)
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

// do asks a handler, and holds the answer against the page.
func do(t testing.TB, h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if r.Context().Err() == nil { // nobody reads it else
		documented.check(t, r.Method, r.URL, w)
	}
	return w
}

func post(t testing.TB, h http.Handler, path, body string) *httptest.ResponseRecorder {
	return do(t, h, request(t, http.MethodPost, path, body))
}

func request(t testing.TB, method, path, body string) *http.Request {
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r := httptest.NewRequestWithContext(t.Context(), method, path, content)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// wants is a body of one limit, with more fields.
func wants(name string, more ...string) string {
	return fmt.Sprintf(`{"limits":[{"name":%q}]%s}`, name, strings.Join(append([]string{""}, more...), ","))
}

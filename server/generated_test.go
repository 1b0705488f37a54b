package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/server"
)

// Requests that are made up from the page, right ones and wrong ones: each answer is one that the
// page documents, and the server gives turns as before.
func TestGenerated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{Lease: time.Second, Poll: time.Second})
		g := generator{random: rand.New(rand.NewPCG(1, 2))}
		statuses := map[string]int{}
		for range 3000 {
			method, path, content := g.request()
			ctx, cancel := context.WithCancel(t.Context())
			w := do(t, s, request(t, method, path, content).WithContext(ctx))
			cancel()
			statuses[fmt.Sprint(path, " ", w.Code)]++
			require.NotEqual(t, http.StatusInternalServerError, w.Code, "%s %s %s: %s", method, path, content, w.Body)
		}
		t.Log(statuses)
		time.Sleep(time.Hour) // pauses end
		do(t, s, request(t, http.MethodDelete, "/v1/limits/day", ""))
		require.Equal(t, http.StatusOK, post(t, s, "/v1/allow", wants("day")).Code)
	})
}

// generator makes up requests.
type generator struct{ random *rand.Rand }

func (g *generator) one(of ...any) any { return of[g.random.IntN(len(of))] }

func (g *generator) request() (method, path, content string) {
	paths := documented.doc["paths"].(map[string]any)
	for {
		path = slices.Sorted(maps.Keys(paths))[g.random.IntN(len(paths))]
		operations := paths[path].(map[string]any)
		method = slices.Sorted(maps.Keys(operations))[g.random.IntN(len(operations))]
		if method == "parameters" {
			continue
		}
		pointer := "/paths/" + strings.ReplaceAll(path, "/", "~1") + "/" + method + "/requestBody"
		if operations[method].(map[string]any)["requestBody"] != nil {
			_, at := documented.at(pointer)
			body, _ := json.Marshal(g.value(at+"/content/application~1json/schema", 0))
			content = string(body)
		}
		path = strings.Replace(path, "{name}", fmt.Sprint(g.one("api", "hosts?key=a", "none", "%00", "slots", "day")), 1)
		return strings.ToUpper(method), path, content
	}
}

// value makes up a value of a schema, and now and then something else.
func (g *generator) value(pointer string, depth int) any {
	schema, pointer := documented.at(pointer)
	if g.random.IntN(12) == 0 || depth > 6 {
		return g.one(nil, "", -1, 0, 1.5, 1e300, true, "\x00", "é", strings.Repeat("x", 600), []any{}, map[string]any{}, map[string]any{"x": 1})
	}
	for _, kind := range []string{"oneOf", "allOf"} {
		if all, ok := schema[kind].([]any); ok {
			return g.value(fmt.Sprint(pointer, "/", kind, "/", g.random.IntN(len(all))), depth+1)
		}
	}
	switch schema["type"] {
	case "object":
		object := map[string]any{}
		properties, _ := schema["properties"].(map[string]any)
		required, _ := schema["required"].([]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if slices.Contains(required, any(name)) || g.random.IntN(3) == 0 {
				object[name] = g.value(pointer+"/properties/"+name, depth+1)
			}
		}
		return object
	case "array":
		list := []any{}
		for range 1 + g.random.IntN(2) {
			list = append(list, g.value(pointer+"/items", depth+1))
		}
		return list
	case "integer":
		return g.one(-1, 0, 1, 1, 2, 50, 10001)
	case "number":
		return g.one(0, 0.5, 1, 3, 1e7)
	case "boolean":
		return g.one(true, false)
	}
	return g.one("api", "api", "burst", "slots", "tokens", "tenants", "hosts", "none", "100ms", "1s", "5/s", "2000-01-01T00:00:01Z", "a")
}

package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/example"
	"github.com/fleetpace/fleetpace/internal/example/web"
)

// demoInventory walks the demo site without a network: what a crawler that
// obeys robots.txt can find there.
type demoInventory struct {
	pages, moved, figures, private map[string]bool
}

// requests is what a crawl sends that visits everything once.
func (d demoInventory) requests() int {
	return len(d.pages) + len(d.moved) + len(d.figures) + example.PageHosts // robots.txt
}

func takeInventory(t *testing.T, n int) demoInventory {
	t.Helper()
	addrs := []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}
	inv := demoInventory{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	s, hosts := example.NewPages(n, addrs, 10)
	todo := s.Entries
	for len(todo) > 0 {
		address := todo[0]
		todo = todo[1:]
		if inv.pages[address] {
			continue
		}
		inv.pages[address] = true
		at, err := url.Parse(address)
		require.NoError(t, err)
		got := httptest.NewRecorder()
		hosts[slices.Index(addrs, at.Host)].Handler.ServeHTTP(got, httptest.NewRequest(http.MethodGet, at.RequestURI(), nil))
		require.Equal(t, http.StatusOK, got.Code, "a link leads nowhere")
		_, links, err := web.Extract(got.Body.Bytes(), "text/html; charset=utf-8", at)
		require.NoError(t, err)
		for _, l := range links {
			switch s := l.String(); {
			case strings.HasPrefix(l.Path, "/private/"):
				inv.private[s] = true
			case strings.HasPrefix(l.Path, "/moved/"):
				inv.moved[s] = true
			case l.Path == "/figure.png":
				inv.figures[s] = true
			default:
				todo = append(todo, s)
			}
		}
	}
	return inv
}

func TestDemoSiteIsWholeAndTheSameEachTime(t *testing.T) {
	for _, n := range []int{6, 7, 90} {
		inv := takeInventory(t, n)
		assert.Len(t, inv.pages, n, "some pages cannot be reached")
		assert.NotEmpty(t, inv.private, "nothing is forbidden, so obeying proves nothing")
	}
	assert.Equal(t, takeInventory(t, 90), takeInventory(t, 90))
	assert.NotEmpty(t, takeInventory(t, 300).moved)
}

package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A page elsewhere whose name leads to this machine is refused.
func TestLocalOnly(t *testing.T) {
	called := 0
	h := localOnly(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called++ }))
	for host, status := range map[string]int{
		"localhost": 200, "localhost:9466": 200, "127.0.0.1:9466": 200, "127.0.0.1": 200, "[::1]:9466": 200, "[::1]": 200, "127.1.2.3": 200,
		"evil.test": 403, "evil.test:9466": 403, "localhost.evil.test": 403, "10.0.0.1:9466": 403, "": 403, "127.0.0.1.evil.test:1": 403,
	} {
		called = 0
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, status, w.Code, host)
		assert.Equal(t, status == 200, called == 1, host)
	}
}

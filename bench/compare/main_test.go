package main

import (
	"testing"

	"github.com/fleetpace/fleetpace/bench/internal/database"
	"github.com/fleetpace/fleetpace/bench/internal/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

// onOwnRedis is a session on a Redis that ends with the test.
func onOwnRedis(t testing.TB) *session {
	t.Helper()
	programtest.NeedRedis(t)
	url, stop, err := database.Open("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	s := &session{url: url}
	s.admin = s.client()
	t.Cleanup(func() { _ = s.admin.Close() })
	return s
}

package main

import (
	"testing"

	"github.com/fleetpace/fleetpace/bench/internal/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"os"
)

//go:embed calibration.json
var embedded []byte

// calibration is what was measured, and on what.
type calibration struct {
	Measured string `json:"measured"` // the day
	Redis    string `json:"redis"`    // name and version
	CPU      string `json:"cpu"`
	Records  int    `json:"process_records"` // in the state of each limit while calls were timed

	Quick  verb `json:"quick"`  // quick.lua; an item is a limit
	Take   verb `json:"take"`   // take.lua whose numbers are final; an item is a request
	LineUp verb `json:"lineup"` // take.lua whose numbers wait
	Claim  verb `json:"claim"`  // claim.lua

	CensusMicros float64 `json:"census_micros_per_record"` // of the take that counts the processes

	// A server that sleeps between calls takes so many times as long for each: it is
	// woken, and its caches are cold. Verbs were measured on a busy one, as it is the
	// busy ones that must be planned for.
	IdleScript float64 `json:"idle_script_factor"`
	IdleCPU    float64 `json:"idle_cpu_factor"`

	ServerBytes float64 `json:"server_bytes"` // an empty server
	State       size    `json:"state_bytes"`  // a limit's hash, by process records
	List        size    `json:"list_bytes"`   // a sorted set, by numbers
}

// verb is what a call of a script takes of Redis's time.
type verb struct {
	Script linear `json:"script_micros"` // in the script, as INFO commandstats has it
	CPU    linear `json:"cpu_micros"`    // of the main thread: script, parsing, reading and writing
}

// linear is Call + Each * items.
type linear struct {
	Call float64 `json:"call"`
	Each float64 `json:"each"`
}

func (l linear) of(items float64) float64 { return l.Call + l.Each*items }

// size is what a key takes in memory: Redis packs small ones.
type size struct {
	Packed linear  `json:"packed"`
	Table  linear  `json:"table"`
	Most   float64 `json:"packed_up_to"` // items
}

func (s size) of(items float64) float64 {
	if items <= s.Most {
		return s.Packed.of(items)
	}
	return s.Table.of(items)
}

// readCalibration reads a file, or what is built in when path is empty.
func readCalibration(path string) (calibration, error) {
	data := embedded
	if path != "" {
		var err error
		if data, err = os.ReadFile(path); err != nil {
			return calibration{}, fmt.Errorf("-calibration: %w", err)
		}
	}
	var c calibration
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return c, fmt.Errorf("-calibration %s: %w", path, err)
	}
	if err := c.check(); err != nil {
		return c, fmt.Errorf("-calibration %s: %w", path, err)
	}
	return c, nil
}

func (c calibration) check() error {
	for _, f := range []struct {
		name string
		l    linear
	}{
		{"quick.script_micros", c.Quick.Script},
		{"quick.cpu_micros", c.Quick.CPU},
		{"take.script_micros", c.Take.Script},
		{"take.cpu_micros", c.Take.CPU},
		{"lineup.script_micros", c.LineUp.Script},
		{"lineup.cpu_micros", c.LineUp.CPU},
		{"claim.script_micros", c.Claim.Script},
		{"claim.cpu_micros", c.Claim.CPU},
		{"state_bytes.packed", c.State.Packed},
		{"state_bytes.table", c.State.Table},
		{"list_bytes.packed", c.List.Packed},
		{"list_bytes.table", c.List.Table},
	} {
		if !positive(f.l.Call) || !positive(f.l.Each) {
			return fmt.Errorf("%s is %+v: want a positive call and each", f.name, f.l)
		}
	}
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"census_micros_per_record", c.CensusMicros}, {"server_bytes", c.ServerBytes},
		{"idle_script_factor", c.IdleScript}, {"idle_cpu_factor", c.IdleCPU},
	} {
		if !positive(f.value) {
			return fmt.Errorf("%s is %g: want a positive number", f.name, f.value)
		}
	}
	return nil
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 1) }

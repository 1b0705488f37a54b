package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
)

//go:embed calibration.json
var embedded []byte

// calibration is what was measured, and on what.
type calibration struct {
	Measured string `json:"measured"` // the day
	Redis    string `json:"redis"`    // name and version
	CPU      string `json:"cpu"`

	Common  verb `json:"common"`  // ask.lua where nobody waits; an item is a limit
	Waiting verb `json:"waiting"` // ask.lua where calls wait; an item is a call, half of them new
	Beat    verb `json:"beat"`    // beat.lua; an item is a process under the name

	// A server that sleeps between calls takes so many times as long for each: it is
	// woken, and its caches are cold. Verbs were measured on a busy one, as it is the
	// busy ones that must be planned for.
	IdleScript float64 `json:"idle_script_factor"`
	IdleCPU    float64 `json:"idle_cpu_factor"`

	ServerBytes float64 `json:"server_bytes"` // an empty server
	State       float64 `json:"state_bytes"`  // a limit's hash …
	Lined       float64 `json:"lined_bytes"`  // … and where calls wait
	Places      size    `json:"places_bytes"` // of a limit, by calls that wait
	Name        size    `json:"name_bytes"`   // by processes
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

// size is what keys take in memory: Redis packs small ones.
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

// check finds figures that are not positive.
func (c calibration) check() error { return positive("", reflect.ValueOf(c)) }

func positive(name string, v reflect.Value) error {
	if v.Kind() == reflect.Float64 && !(v.Float() > 0 && !math.IsInf(v.Float(), 1)) {
		return fmt.Errorf("%s is %g: want a positive number", name, v.Float())
	}
	for i := 0; v.Kind() == reflect.Struct && i < v.NumField(); i++ {
		if err := positive(strings.TrimPrefix(name+"."+v.Type().Field(i).Tag.Get("json"), "."), v.Field(i)); err != nil {
			return err
		}
	}
	return nil
}

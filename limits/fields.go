package limits

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// fields are the fields of a limit, in the order in which errors list them. Each reads its text
// into the entry, or returns what is wrong with it.
var fields = []struct {
	name string
	read func(*entry, string) error
}{
	{"name", (*entry).readName},
	{"limit", (*entry).readLimit},
	{"key", (*entry).readKey},
	{"flow", (*entry).readFlow},
	{"version", (*entry).readVersion},
	{"kind", (*entry).readKind},
	{"group", (*entry).readGroup},
	{"settles", (*entry).readSettles},
	{"prefetch", (*entry).readPrefetch},
	{"max-waiting", (*entry).readMaxWaiting},
	{"max-pause", (*entry).readMaxPause},
	{"outage", (*entry).readOutage},
}

const (
	longestText = 256 // bytes of any field except a key
	fieldNames  = "name, limit, key, flow, weights, version, plans, kind, group, settles, prefetch, max-waiting, max-pause and outage"
)

// earlier are the names that fields had in v0.2, and that still work. They go with v0.4.
var earlier = map[string]string{"share": "flow", "lease": "prefetch"}

// gone are fields of earlier versions, and what to do about them.
var gone = map[string]string{
	"inline-bound": "no longer exists: every limit grants turns at most half a second early; leave it out",
	"inline_bound": "no longer exists: every limit grants turns at most half a second early; leave it out",
}

func (e *entry) readName(text string) error {
	if err := printable(text); err != nil {
		return err
	}
	e.settings.name = text
	return e.probe(func(s *settings) { s.name = text })
}

func (e *entry) readLimit(text string) (err error) {
	e.settings.limit, err = reserve.ParseLimit(text)
	if err != nil {
		return errors.New(reason(err))
	}
	return nil
}

func (e *entry) readKey(text string) (err error) {
	e.key, err = parseTemplate(text)
	return err
}

func (e *entry) readFlow(text string) (err error) {
	e.flows.flow, err = parseTemplate(text)
	return err
}

func (e *entry) readKind(text string) error {
	for k := reserve.KindPaced; k <= reserve.KindSlots; k++ {
		if k.String() == text {
			e.kind = text
			return nil
		}
	}
	return fmt.Errorf("must be paced, warming up, quota, rolling or slots, got %q", text)
}

func (e *entry) readGroup(text string) error {
	if err := printable(text); err != nil {
		return err
	}
	e.settings.group = text
	return e.probe(func(s *settings) { s.group = text })
}

func (e *entry) readSettles(text string) error {
	if text != "true" && text != "false" {
		return fmt.Errorf("must be true or false, got %q", text)
	}
	e.settings.settles = text == "true"
	return nil
}

func (e *entry) readPrefetch(text string) (err error) {
	if e.settings.prefetch, err = duration(text); err != nil {
		return err
	}
	return e.probe(func(s *settings) { s.prefetch = e.settings.prefetch })
}

func (e *entry) readMaxWaiting(text string) (err error) {
	if e.settings.maxWaiting, err = strconv.Atoi(text); err != nil {
		return fmt.Errorf("must be a number such as 1000, got %q", text)
	}
	return e.probe(func(s *settings) { s.maxWaiting = e.settings.maxWaiting })
}

func (e *entry) readMaxPause(text string) (err error) {
	if e.settings.maxPause, err = duration(text); err != nil {
		return err
	}
	return e.probe(func(s *settings) { s.maxPause = e.settings.maxPause })
}

func (e *entry) readOutage(text string) (err error) {
	e.settings.outage, err = reserve.ParsePolicy(text)
	if err != nil {
		return errors.New(reason(err))
	}
	return nil
}

func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("must be a duration such as 500ms, got %q", text)
	}
	return d, nil
}

// probe lets reserve check one setting by itself, so that the error lists each wrong setting.
func (e *entry) probe(set func(*settings)) error {
	s := settings{name: "probe", limit: reserve.PerSecond(1)}
	set(&s)
	if err := s.validate(e.file.client, reserve.Config{}); err != nil {
		return errors.New(reason(err))
	}
	return nil
}

// agree checks fields that depend on other fields. It returns the field that is wrong. The kind is
// only a check of the limit, which states its kind itself.
func (e *entry) agree() (string, error) {
	if e.flows.weights != nil && e.flows.flow.text == "" {
		return "weights", errors.New("need a flow, such as {tenant}")
	}
	if is := e.settings.limit.Kind().String(); e.kind != "" && e.kind != is {
		return "kind", fmt.Errorf("must be %s, the kind of the limit %q, got %q", is, e.settings.limit, e.kind)
	}
	return e.agreePlans()
}

// missing returns the required fields that a limit lacks.
func (e *entry) missing() string {
	var names []string
	for _, name := range []string{"name", "limit"} {
		if e.lines[name] == 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " and no ")
}

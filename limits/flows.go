package limits

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// These are the bounds of Flow and Weight of reserve.Limiter.
const (
	longestFlow = 256 // bytes

	leastWeight, mostWeight = 1e-6, 1e6
)

// defaultWeight is the name of the weight of all flows that have none by their names.
const defaultWeight = "default"

// flows say whose calls have which share of a limit.
type flows struct {
	flow    template
	weights map[string]float64 // nil: all are 1
}

func (s flows) weight(flow string) float64 {
	for _, name := range []string{flow, defaultWeight} {
		if weight, ok := s.weights[name]; ok {
			return weight
		}
	}
	return 1
}

// readWeights takes in the weights of flows, by their names.
func (e *entry) readWeights(node *yaml.Node, path string) {
	if !e.file.is(node, yaml.MappingNode, path, "weights by name, such as {acme: 3, default: 1}") {
		return
	}
	problems := &e.file.problems
	e.flows.weights = map[string]float64{}
	for name, value := range pairs(node) {
		if name.Kind != yaml.ScalarNode {
			problems.add(name.Line, path, "must be by name, got %s", kindOf(name))
			continue
		}
		of := path + "." + name.Value
		if _, twice := e.flows.weights[name.Value]; twice {
			problems.add(name.Line, of, "is there twice")
			continue
		}
		e.flows.weights[name.Value] = 1
		text, ok := e.file.text(value, of, "weights")
		if !ok {
			continue
		}
		weight, err := strconv.ParseFloat(text, 64)
		if err != nil {
			err = fmt.Errorf("must be a number, got %q", text)
		} else if !(weight >= leastWeight && weight <= mostWeight) {
			err = fmt.Errorf("must be from %v to %v, got %v", leastWeight, mostWeight, weight)
		}
		if err != nil {
			problems.add(value.Line, of, "%v", err)
		}
		e.flows.weights[name.Value] = weight
	}
}

// String is what a limit says of flows, for the log; empty: nothing.
func (s flows) String() string {
	if s.flow.text == "" {
		return ""
	}
	text := ", flow " + s.flow.text
	if len(s.weights) == 0 {
		return text
	}
	var weights []string
	for _, name := range slices.Sorted(maps.Keys(s.weights)) {
		weights = append(weights, fmt.Sprintf("%s: %v", name, s.weights[name]))
	}
	return text + ", weights {" + strings.Join(weights, ", ") + "}"
}

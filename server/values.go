package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/fleetpace/fleetpace/limits"
)

// valuesOf reads a key: a text if the template has one name, or an object with a value for each
// name.
func valuesOf(field string, about limits.About, key json.RawMessage) (map[string]string, error) {
	if len(key) == 0 || string(key) == "null" {
		return nil, nil
	}
	var value string
	if json.Unmarshal(key, &value) == nil {
		switch {
		case about.Key == "":
			return nil, wrong(field, value, fmt.Sprintf("must be left out: %q has no key", about.Name))
		case len(about.KeyNames) != 1:
			return nil, wrong(field, value, fmt.Sprintf("must have a value for each of %s, as %q has the key %q", strings.Join(about.KeyNames, ", "), about.Name, about.Key))
		}
		return map[string]string{about.KeyNames[0]: value}, nil
	}
	var values map[string]string
	if err := json.Unmarshal(key, &values); err != nil {
		return nil, wrong(field, nil, "must be a string, or an object of strings")
	}
	return values, nil
}

// missing returns the names of the flow that have no value.
func missing(about limits.About, values map[string]string) []string {
	return slices.DeleteFunc(slices.Clone(about.FlowNames), func(name string) bool {
		_, ok := values[name]
		return ok || slices.Contains(about.KeyNames, name)
	})
}

package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetpace/fleetpace/reserve"
)

// checkKey refuses a time or a limit in the place of the KEY. "pause api 20s" most likely means
// --for 20s, and would pause a key that no call uses. A key with such a name is written after the
// limit and a slash.
func checkKey(cmd *cobra.Command, args []string) error {
	const key = 1
	if !strings.Contains(cmd.Use, "[KEY") || len(args) <= key || strings.HasSuffix(cmd.Use, " SLOT") && len(args) == key+1 {
		return nil
	}
	word, command := args[key], cmd.CommandPath()+" "+args[0]
	what, flag, value := "a time", "for", ""
	if length, ok := lengthOf(word); ok {
		value = length.String()
	} else if limit, err := reserve.ParseLimit(word); err == nil {
		what, flag, value = "a limit", "to", strconv.Quote(limit.String())
	} else {
		return nil
	}
	meant := ""
	if cmd.Flags().Lookup(flag) != nil {
		meant = fmt.Sprintf("; write %s --%s %s if it is one", command, flag, value)
	}
	return fmt.Errorf("KEY: %q reads as %s%s; write %s/%s if it is the name of a key", word, what, meant, command, word)
}

// lengthWord matches times as people write them, which time.ParseDuration does not read.
var lengthWord = regexp.MustCompile(`(?i)^([0-9]+(?:\.[0-9]+)?) ?(s|m|h|d|w|(?:sec|min|hr|second|minute|hour|day|week)s?)$`)

// lengthOf reads a time with its unit. A number without a unit is not a time.
func lengthOf(word string) (time.Duration, bool) {
	if m := lengthWord.FindStringSubmatch(word); m != nil {
		n, err := strconv.ParseFloat(m[1], 64)
		unit := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}[strings.ToLower(m[2])[0]]
		return time.Duration(n * float64(unit)), err == nil
	}
	length, err := time.ParseDuration(word)
	return length, err == nil && strings.Trim(word, "+-0123456789.") != ""
}

package command

import (
	"flag"
	"fmt"
	"io"
)

// NewFlags returns an empty set of flags, which -h explains after the usage.
func NewFlags(name, usage string, stderr io.Writer) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() { fmt.Fprint(stderr, usage); fs.PrintDefaults() }
	return fs
}

// Parse parses the arguments, all of which are flags.
func Parse(fs *flag.FlagSet, args []string) error {
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("argument %q is not understood: everything is a flag, see -h", fs.Arg(0))
	}
	return nil
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/reserve"
)

// app is one run of the command.
type app struct {
	in        io.Reader
	out, errs io.Writer
	url       string
	prefix    string
	flags     []string // the given ones of these, for the commands that are printed
	format    string
	yes       bool
	client    redis.UniversalClient
	fleet     *fleet.Reader
}

const about = `Shows the limits of a fleet, says why calls wait, and changes limits.

A LIMIT is the name of a limiter (Config.Name), or group/name. A KEY is a tenant or a host that
processes pass to For.
`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "fleetpace", Short: "Shows the limits of a fleet, says why calls wait, and changes limits", Long: about + "\n" + urlForms + "\n" + exitCodes,
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.open(cmd) },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w (see %s -h)", err, cmd.CommandPath())}
	})
	flags := root.PersistentFlags()
	flags.StringVar(&a.url, "redis", cmp.Or(a.url, os.Getenv("FLEETPACE_REDIS_URL"), defaultURL), "`URL` of Redis (default FLEETPACE_REDIS_URL, or redis://localhost:6379)")
	flags.Lookup("redis").DefValue = ""
	flags.StringVar(&a.prefix, "prefix", cmp.Or(a.prefix, os.Getenv("FLEETPACE_PREFIX"), reserve.DefaultPrefix), "`text` before the names of Redis keys: Config.Prefix of the limiters (default FLEETPACE_PREFIX, or "+reserve.DefaultPrefix+")")
	flags.Lookup("prefix").DefValue = ""
	flags.StringVarP(&a.format, "output", "o", "text", "`format`: text or json")
	root.AddCommand(a.ls(), a.show(), a.top(), a.watch(), a.why(), a.pause(), a.stop(), a.resume(), a.refill(), a.set(), a.reset(), a.release(),
		a.check(), a.doctor(), a.export(), a.monitor(), a.serve(), a.version())
	for _, c := range root.Commands() {
		c.Flags().SortFlags = false
		if args := c.Args; args != nil {
			c.Args = func(cmd *cobra.Command, given []string) error {
				if err := args(cmd, given); err != nil {
					return usageError{fmt.Errorf("%w; usage: %s", err, cmd.UseLine())}
				}
				if err := checkKey(cmd, given); err != nil {
					return usageError{err}
				}
				return nil
			}
		}
	}
	return root
}

// defaultURL is where Redis is unless it is said.
const defaultURL = "redis://localhost:6379"

// offline marks commands that need no Redis.
const offline = "offline"

// open connects to Redis, unless the command does not need it.
func (a *app) open(cmd *cobra.Command) error {
	if a.format != "text" && a.format != "json" {
		return usageError{fmt.Errorf("-o: must be text or json, got %q", a.format)}
	}
	elsewhere := cmd.Name() == "monitor" // its page is read in shells that may lack the environment variables
	if cmd.Flags().Changed("redis") || elsewhere && a.url != defaultURL {
		a.flags = append(a.flags, "--redis", withoutPassword(a.url))
	}
	if cmd.Flags().Changed("prefix") || elsewhere && a.prefix != reserve.DefaultPrefix {
		a.flags = append(a.flags, "--prefix", a.prefix)
	}
	if cmd.Annotations[offline] != "" || cmd.Name() == "help" || cmd.Parent() != nil && cmd.Parent().Name() == "completion" || strings.HasPrefix(cmd.Name(), "__") {
		return nil
	}
	return a.connect(cmd.Context())
}

func (a *app) connect(ctx context.Context) (err error) {
	if a.client, err = connect(a.url); err != nil {
		return err
	}
	a.fleet = fleet.New(a.client, a.prefix)
	a.fleet.Flags, a.fleet.At = a.flags, address(a.url)
	return reach(ctx, a.client)
}

func (a *app) close() {
	if a.fleet != nil {
		a.fleet.Close()
		_ = a.client.Close()
	}
}

// find returns the limit and the key that the arguments name.
func (a *app) find(ctx context.Context, args []string) (n fleet.Name, key string, err error) {
	if len(args) == 1 {
		return a.fleet.FindKey(ctx, args[0])
	}
	n, err = a.fleet.Find(ctx, args[0])
	return n, args[1], err
}

// names completes names of limits.
func (a *app) names(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || a.connect(cmd.Context()) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := a.fleet.Names(cmd.Context())
	var texts []string
	for _, n := range names {
		texts = append(texts, n.String())
	}
	return texts, cobra.ShellCompDirectiveNoFileComp
}

// single also accepts long flags with one dash, as other Go programs do: -redis, -prefix.
func single(root *cobra.Command, args []string) []string {
	long := map[string]bool{}
	note := func(f *pflag.Flag) { long["-"+f.Name] = true }
	root.PersistentFlags().VisitAll(note)
	for _, c := range root.Commands() {
		c.Flags().VisitAll(note)
	}
	out := slices.Clone(args)
	for i, arg := range args {
		if name, _, _ := strings.Cut(arg, "="); long[name] {
			out[i] = "-" + arg
		}
	}
	return out
}

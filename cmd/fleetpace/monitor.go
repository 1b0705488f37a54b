package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fleetpace/fleetpace/internal/scrape"
	"github.com/fleetpace/fleetpace/monitor"
)

// authVariable holds the credentials for the web page, user:password. On the command line, other
// users of the machine could read them.
const authVariable = "FLEETPACE_MONITOR_AUTH"

func (a *app) monitor() *cobra.Command {
	var listen string
	var readOnly, open bool
	c := &cobra.Command{
		Use: "monitor", Short: "Serve a web page that shows the limits and changes them",
		Long: `Serves a web page that shows the limits as they change. On it, people pause, resume, refill,
set and reset limits, and free slots. With ` + authVariable + `=user:password browsers have to give both.
Without it, the page serves this machine only.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			auth := os.Getenv(authVariable)
			if err := admits(listen, auth, open); err != nil {
				return usageError{err}
			}
			return a.servePage(cmd.Context(), listen, auth, readOnly)
		},
	}
	c.Flags().StringVar(&listen, "listen", "localhost:9466", "`address` to listen at")
	c.Flags().BoolVar(&readOnly, "read-only", false, "refuse all changes of limits")
	c.Flags().BoolVar(&open, "no-auth", false, "serve everybody who can reach the address, without a password")
	return c
}

// admits returns what is wrong with the address or the credentials. Without a password, only this
// machine may reach the page, unless --no-auth is given.
func admits(listen, auth string, open bool) error {
	_, _, err := net.SplitHostPort(listen)
	switch {
	case err != nil:
		return fmt.Errorf("--listen: %w: must be a host and a port, such as localhost:9466", err)
	case auth != "":
		if user, password, ok := strings.Cut(auth, ":"); !ok || user == "" || password == "" {
			return errors.New(authVariable + ": must be user:password")
		}
		return nil
	case open:
		return nil
	}
	if loopback(listen) {
		return nil
	}
	return fmt.Errorf("--listen %s: others could reach the page: set %s to user:password, or pass --no-auth", listen, authVariable)
}

func (a *app) servePage(ctx context.Context, listen, auth string, readOnly bool) error {
	page, err := monitor.New(a.client, monitor.Config{
		Prefix: a.prefix, Flags: a.flags, ReadOnly: readOnly, Hosts: []string{"*"}, Logger: slog.New(slog.NewTextHandler(a.errs, nil)),
	})
	if err != nil {
		return err
	}
	defer page.Close()
	handler := asking(auth, page)
	if auth == "" && loopback(listen) {
		handler = localOnly(handler)
	}
	at, done, err := scrape.Serve(ctx, listen, handler)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.errs, "the page is at http://%s/\n", at)
	return <-done
}

// asking requires a user and a password. The time of the comparison does not depend on how much of
// them is right.
func asking(auth string, next http.Handler) http.Handler {
	if auth == "" {
		return next
	}
	user, password, _ := strings.Cut(auth, ":")
	wanted := [2][sha256.Size]byte{sha256.Sum256([]byte(user)), sha256.Sum256([]byte(password))}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, p, _ := r.BasicAuth()
		given := [2][sha256.Size]byte{sha256.Sum256([]byte(u)), sha256.Sum256([]byte(p))}
		if subtle.ConstantTimeCompare(given[0][:], wanted[0][:])&subtle.ConstantTimeCompare(given[1][:], wanted[1][:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="fleetpace", charset="UTF-8"`)
			http.Error(w, "a user and a password are needed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Package fault classifies the errors of Redis, and of the connection to it: what each means to a caller,
// and what can be done about it.
package fault

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/redis/go-redis/v9"
)

// Docs begins the address of each page of the documentation, for errors and answers that name one.
const Docs = "https://github.com/fleetpace/fleetpace/blob/main/docs/"

// The meanings of an error. Package reserve documents them for users.
var (
	ErrInvalid        = errors.New("invalid")
	ErrExceeds        = errors.New("cost exceeds the burst")
	ErrUnavailable    = errors.New("redis is unavailable")
	ErrOutcomeUnknown = errors.New("outcome unknown")
	ErrDenied         = errors.New("redis denies access")
	ErrCorrupt        = errors.New("state is corrupt")
	ErrVersion        = errors.New("versions do not mix")

	// ErrStale says that a later call of the same process has run before this one.
	ErrStale = fmt.Errorf("%w: it has answered a later call", ErrUnavailable)

	// ErrMigrating says that two nodes of a cluster each have some of the call's keys. Nothing is broken.
	ErrMigrating = fmt.Errorf("%w: a slot of the cluster is moving", ErrUnavailable)

	// ErrNoEffects comes from a Redis that replicates scripts instead of their effects. There no script may
	// write after it has read the clock.
	ErrNoEffects = fmt.Errorf("%w: its setting forbids scripts that read the clock and write", ErrDenied)
)

// refusal is an error that Redis replies, what it means to the caller, and what can be done.
type refusal struct {
	code   string // the error's first word, or words anywhere in it
	means  error
	advice string
}

// refusals are tried in this order.
var refusals = []refusal{
	// Errors that the scripts reply.
	{"BADARG", ErrInvalid, ""},
	{"BADSTATE", ErrCorrupt, ""},
	{"STALE", ErrStale, "a later copy of this call has the answer"},

	// Redis never runs this command for this client.
	{"NOAUTH", ErrDenied, "set Username and Password in the options of the client"},
	{"Protocol error: unauthenticated", ErrDenied, "set Username and Password in the options of the client"},
	{"WRONGPASS", ErrDenied, "check Username and Password in the options of the client"},
	{"called without any password configured", ErrDenied, "this Redis has no password; set none in the client"},
	{"NOPERM", ErrDenied, adviceACL},
	{"ACL failure in script", ErrDenied, adviceACL},
	{"user executing the script can't", ErrDenied, adviceACL}, // before Redis 7.2
	{"DENIED", ErrDenied, "Redis is in protected mode; give it a password, or bind it to one address"},
	{"Write commands not allowed after non deterministic commands", ErrNoEffects, // before Redis 7
		"set lua-replicate-commands yes, in redis.conf or with CONFIG SET"},
	{"unknown command", ErrDenied, "the server, or a proxy before it, lacks this command"},

	// The client should ask another server.
	{"MOVED", ErrUnavailable, adviceCluster},
	{"ASK", ErrUnavailable, adviceCluster},
	{"CLUSTERDOWN", ErrUnavailable, "a part of the cluster is down; CLUSTER INFO says more"},
	{"TRYAGAIN", ErrMigrating, "try again"},
	{"READONLY", ErrUnavailable, "this is a replica; ask its master, best through a Sentinel client"},
	{"MASTERDOWN", ErrUnavailable, "this is a replica that lost its master; ask the master, best through a Sentinel client"},

	// Redis does not run the command at the moment.
	{"LOADING", ErrUnavailable, "Redis has just started and reads its data; try again"},
	{"BUSY", ErrUnavailable, "a script or function runs for too long; SCRIPT KILL ends it"},
	{"UNKILLABLE", ErrUnavailable, "a script that has written runs for too long; wait, or SHUTDOWN NOSAVE"},
	{"OOM", ErrUnavailable, "Redis is full; raise maxmemory, or remove something"},
	{"MISCONF", ErrUnavailable, "Redis can not save its data; look at its log and its disk"},
	{"NOREPLICAS", ErrUnavailable, "there are fewer replicas than min-replicas-to-write"},
	{"max number of clients", ErrUnavailable, "raise maxclients, or lower PoolSize in the options of the clients"},
	{"NOSCRIPT", ErrUnavailable, "somebody flushed the scripts just now; try again"},

	{"WRONGTYPE", ErrCorrupt, "a key of the limit is used for something else"},
}

const (
	adviceACL     = "the user needs the rules that lua.ACL gives"
	adviceCluster = "this is a node of a cluster; use redis.NewClusterClient"
)

// is reports whether text is this refusal. Before Redis 7, the reply of a command in a script is part of a
// longer error of the script.
func (r refusal) is(text string) bool {
	code, _, _ := strings.Cut(text, " ")
	switch {
	case code == r.code:
		return true
	case strings.Contains(r.code, " "):
		return strings.Contains(text, r.code)
	case strings.HasPrefix(text, "ERR Error "):
		return slices.Contains(strings.FieldsFunc(text, func(c rune) bool { return !unicode.IsLetter(c) }), r.code)
	}
	return false
}

// Classify joins an error of Redis, or of the connection to it, with the sentinel that says what it means.
// It adds what can be done. A command that Redis refused was not run. A command that failed on the way may
// have run, unless it was never sent.
func Classify(err error) error {
	var server redis.Error
	if errors.As(err, &server) {
		for _, r := range refusals {
			if r.is(server.Error()) {
				return advised(r.means, err, r.advice)
			}
		}
		return advised(ErrUnavailable, err, "")
	}
	switch {
	case tlsFailed(err):
		return advised(ErrDenied, err, "check TLSConfig in the options of the client: does Redis speak TLS there, and does each side trust the other?")
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return advised(ErrUnavailable, err, "all connections of the client are in use; raise PoolSize in its options")
	case errors.Is(err, redis.ErrClosed):
		return advised(ErrUnavailable, err, "the client that the limiter was made with was closed; close the limiter before its client")
	case dialing(err):
		return advised(ErrUnavailable, err, "is this the address of Redis, and is it up?")
	}
	advice := "the connection broke"
	switch {
	case errors.Is(err, context.Canceled):
		advice = "the caller left"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		advice = "no answer in time; is Redis overloaded, or does only one side speak TLS?"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		// If Redis refuses a client certificate, it often closes the connection at once, without any
		// message.
		advice = "the connection broke; if each one does, compare TLSConfig in the options of the client with what Redis asks for"
	}
	return fmt.Errorf("%w, %w: %w (%s)", ErrUnavailable, ErrOutcomeUnknown, err, advice)
}

func advised(means, err error, advice string) error {
	if means == ErrInvalid { //nolint:errorlint // the sentinel itself
		return fmt.Errorf("%w argument: %w", means, err)
	}
	if advice == "" {
		return fmt.Errorf("%w: %w", means, err)
	}
	return fmt.Errorf("%w: %w (%s)", means, err, advice)
}

// tlsFailed reports whether the TLS handshake failed. Then Redis has not read any command.
func tlsFailed(err error) bool {
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return true
	}
	var record tls.RecordHeaderError
	if errors.As(err, &record) {
		return record.Conn != nil // the first record
	}
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" && op.Op != "local error" {
		return false
	}
	alert := op.Err.Error()
	return slices.ContainsFunc([]string{"certificate", "handshake failure", "protocol version", "access denied", "unrecognized name"},
		func(words string) bool { return strings.Contains(alert, words) })
}

// dialing reports whether no connection was ever made.
func dialing(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// Away reports whether a call failed because Redis cannot be reached. A caller whose own context ended says
// nothing about Redis.
func Away(err error) bool {
	return (errors.Is(err, ErrUnavailable) || errors.Is(err, ErrDenied)) && !errors.Is(err, context.Canceled)
}

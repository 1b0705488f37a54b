package server

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// right is what a token lets its bearer do. Each right includes reading openapi.yaml.
type right uint8

const (
	takes    right = 1 << iota // turns, pauses of at most an hour, and reading limits
	operates                   // pausing and changing limits, and reading them
	measures                   // reading metrics
	all      = takes | operates | measures
)

var rightNames = map[string]right{"turns": takes, "operate": operates, "metrics": measures}

func (r right) String() string {
	var names []string
	for name, right := range rightNames {
		if r&right != 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " or ")
}

// reread is how old the tokens of a file may be.
const reread = 5 * time.Second

type knownToken struct {
	sum [sha256.Size]byte
	may right
}

// tokens are the bearer tokens that a server accepts: Config.Token, and those of Config.TokenFile.
type tokens struct {
	path   string
	logger *slog.Logger
	own    []knownToken // of Config.Token

	mu     sync.Mutex
	text   []byte
	known  []knownToken
	readAt time.Time
}

func newTokens(config *Config) (*tokens, error) {
	t := &tokens{path: config.TokenFile, logger: config.Logger, readAt: time.Now()}
	if config.Token != "" {
		t.own = []knownToken{{sha256.Sum256([]byte(config.Token)), all}}
	}
	if t.path == "" {
		t.known = t.own
		return t, nil
	}
	if err := t.read(); err != nil {
		return nil, invalid("Config.TokenFile", "%v", err)
	}
	return t, nil
}

// read reads the file. If it is wrong, the tokens stay as they are.
func (t *tokens) read() error {
	text, err := os.ReadFile(t.path)
	if err != nil || bytes.Equal(text, t.text) {
		return err
	}
	known := t.own
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		may := rightNames[words[0]]
		if may == 0 || len(words) != 2 {
			return fmt.Errorf("%s:%d: must be turns, operate or metrics, and one token", t.path, i+1)
		}
		known = append(known, knownToken{sha256.Sum256([]byte(words[1])), may})
	}
	if len(known) == 0 {
		return fmt.Errorf("%s: has no token", t.path)
	}
	t.text, t.known = text, known
	return nil
}

// may returns the rights of a request. The time of the comparison does not depend on how much of
// the token is right.
func (t *tokens) may(r *http.Request) (may right) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.path != "" && time.Since(t.readAt) >= reread {
		t.readAt = time.Now()
		if err := t.read(); err != nil {
			t.logger.Warn("fleetpace: could not read the file of tokens again; the previous tokens are still valid", "error", err)
		}
	}
	if len(t.known) == 0 {
		return all
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(given)))
	for _, k := range t.known {
		may |= k.may * right(subtle.ConstantTimeCompare(sum[:], k.sum[:]))
	}
	if !strings.EqualFold(scheme, "Bearer") {
		return 0
	}
	return may
}

// requires refuses requests without a token.
func (t *tokens) requires(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t.may(r) == 0 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="fleetpace"`)
			answer(w, problem{Status: http.StatusUnauthorized, Detail: "Send the server's token: Authorization: Bearer …"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// let requires a token with one of these rights.
func (t *tokens) let(some right, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if t.may(r)&some == 0 {
			answer(w, problem{Status: http.StatusForbidden, Detail: "This token lacks the right for the request: " + some.String() + "."})
			return
		}
		next(w, r)
	}
}

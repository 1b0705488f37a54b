package reserve_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// realServer is there when FLEETPACE_RESERVE_REDIS=real; see TestMain.
var realServer *realRedis

// The user that the limiters of the tests are on a real Redis.
const (
	limitedUser     = "limiter"
	limitedPassword = "secret"
)

// realRedis is a real Redis whose clock is that of the bubble that uses it:
// libfaketime shows it the time that stands in a file, and every connection
// writes its own time there before it sends anything. A goroutine that waits for
// a reply is not durably blocked, so simulated time stands still until it has
// come. One bubble at a time may use it.
type realRedis struct {
	dir    string
	socket string

	mu    sync.Mutex
	told  string // what the file says
	error string // what calls get instead of an answer; "": none
	admin *redis.Client
}

// begin empties the server for a test, and gives its user the documented rules.
func (r *realRedis) begin() (end func()) {
	r.SetError("")
	options := clientOptions(func() (net.Conn, error) { return r.dial(true) })
	options.Username, options.Password = "", ""
	r.admin = redis.NewClient(options)
	r.FlushAll()
	r.must("script", "flush") // as on a new miniredis
	user := []any{"acl", "setuser", limitedUser, "reset", "on", ">" + limitedPassword}
	for rule := range strings.SplitSeq(lua.ACL(reserve.DefaultPrefix), " ") {
		user = append(user, rule)
	}
	r.must(user...)
	return func() { _ = r.admin.Close() }
}

// forExample is what startRedis gives to an example.
func (r *realRedis) forExample() (client *redis.Client, stop func()) {
	end := r.begin()
	client = redis.NewClient(clientOptions(r.Dial))
	return client, func() { _ = client.Close(); end() }
}

func (r *realRedis) must(command ...any) any {
	reply, err := r.admin.Do(context.Background(), command...).Result()
	if err != nil {
		panic(fmt.Sprint("real Redis: ", command, ": ", err))
	}
	return reply
}

func (r *realRedis) FlushAll() { r.must("flushall") }

func (r *realRedis) Keys() (keys []string) {
	list, _ := r.must("keys", "*").([]any)
	for _, key := range list {
		keys = append(keys, fmt.Sprint(key))
	}
	return keys
}

func (r *realRedis) SetError(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.error = text
}

func (r *realRedis) failing() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.error
}

// tell sets the server's clock.
func (r *realRedis) tell(now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	// libfaketime reads the fraction as a floating point number and cuts it: half
	// a microsecond more, and whole microseconds are right.
	text := fmt.Sprintf("%d.%06d5\n", now.Unix(), now.Nanosecond()/1000)
	if text == r.told {
		return nil
	}
	r.told = text
	// The server may read the file at any moment: it never sees half of it.
	next := filepath.Join(r.dir, "next")
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(next, r.clock())
}

func (r *realRedis) clock() string { return filepath.Join(r.dir, "clock") }

// Dial connects to the server, in or outside of a bubble.
func (r *realRedis) Dial() (net.Conn, error) { return r.dial(false) }

func (r *realRedis) dial(spared bool) (net.Conn, error) {
	conn, err := net.Dial("unix", r.socket)
	if err != nil {
		return nil, err
	}
	return &toldConn{Conn: conn, server: r, spared: spared}, nil
}

// toldConn tells the server the time before each call, and makes up errors.
type toldConn struct {
	net.Conn
	server *realRedis
	spared bool   // from errors
	half   []byte // of a call that gets an error, and is not written to its end
	errors bytes.Buffer
	asked  bool // a call was sent, and nothing of its reply was read

	// Whoever waits for a message that may never come would let time stand still. So
	// nobody may subscribe: such a connection says nothing else until it is closed.
	silent    chan struct{}
	closeOnce sync.Once
}

func (c *toldConn) Write(b []byte) (int, error) {
	if text := c.server.failing(); text != "" && !c.spared {
		var calls int
		calls, c.half = countCalls(append(c.half, b...))
		for range calls {
			fmt.Fprintf(&c.errors, "-%s\r\n", text)
		}
		return len(b), nil
	}
	if bytes.Contains(b, []byte("\r\nsubscribe\r\n")) {
		c.silent = make(chan struct{})
		c.errors.WriteString("-NOPERM no news in here\r\n")
		return len(b), nil
	}
	if err := c.server.tell(time.Now()); err != nil {
		return 0, err
	}
	c.asked = true
	return c.Conn.Write(b)
}

func (c *toldConn) Read(b []byte) (int, error) {
	if c.errors.Len() > 0 {
		return c.errors.Read(b)
	}
	if c.silent != nil {
		<-c.silent
		return 0, net.ErrClosed
	}
	// Of real time: a server that does not answer fails the test.
	if err := c.Conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return 0, err
	}
	c.asked = false
	return c.Conn.Read(b)
}

// Close waits for a reply that nobody waits for any more: the call is not to be
// carried out at some later moment.
func (c *toldConn) Close() error {
	if c.asked {
		_, _ = c.Read(make([]byte, 1))
	}
	if c.silent != nil {
		c.closeOnce.Do(func() { close(c.silent) })
	}
	return c.Conn.Close()
}

// Deadlines of the bubble mean nothing to the kernel.
func (c *toldConn) SetDeadline(time.Time) error      { return nil }
func (c *toldConn) SetReadDeadline(time.Time) error  { return nil }
func (c *toldConn) SetWriteDeadline(time.Time) error { return nil }

// countCalls counts the calls in what a client wrote, and returns the rest.
func countCalls(b []byte) (calls int, rest []byte) {
	for {
		end := 0
		next := func(kind byte) int {
			i := bytes.Index(b[end:], []byte("\r\n"))
			if i < 1 || b[end] != kind {
				return -1
			}
			n, err := strconv.Atoi(string(b[end+1 : end+i]))
			if err != nil {
				return -1
			}
			end += i + 2
			return n
		}
		for range next('*') {
			n := next('$')
			if n < 0 || end+n+2 > len(b) {
				return calls, b
			}
			end += n + 2
		}
		if end == 0 {
			return calls, b
		}
		calls++
		b = b[end:]
	}
}

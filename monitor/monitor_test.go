package monitor_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/monitor"
	"github.com/fleetpace/fleetpace/reserve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a fleet, and a page that is mounted under a prefix.
type scene struct {
	*testing.T
	server *redistest.Server
	client *redis.Client
	prefix string
	url    string // of the page
}

func newScene(t *testing.T, config monitor.Config) *scene {
	server := redistest.New(t)
	s := &scene{T: t, server: server, client: server.Client(t), prefix: redistest.Prefix(t)}
	config.Prefix = s.prefix
	page, err := monitor.New(s.client, config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, page.Close()) })
	mux := http.NewServeMux()
	mux.Handle("/some/where/", http.StripPrefix("/some/where", page))
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	s.url = web.URL + "/some/where/"
	return s
}

func (s *scene) limiter(name string, limit reserve.Limit) *reserve.Limiter {
	l, err := reserve.New(s.client, reserve.Config{Name: name, Prefix: s.prefix, Limit: limit})
	require.NoError(s, err)
	s.Cleanup(func() { _ = l.Close() })
	return l
}

// waits lets calls wait until the test ends.
func (s *scene) waits(n int, wait func(context.Context) error) {
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(s.Context())
	s.Cleanup(func() { cancel(); all.Wait() })
	for range n {
		all.Go(func() { _ = wait(ctx) })
	}
}

var dontFollow = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func (s *scene) send(method, path string, form url.Values, headers ...string) (status int, body string, h http.Header) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(form.Encode()))
	require.NoError(s, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := dontFollow.Do(r)
	require.NoError(s, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(s, err)
	return answer.StatusCode, string(text), answer.Header
}

func (s *scene) get(path string) string {
	s.Helper()
	status, body, _ := s.send(http.MethodGet, path, nil)
	require.Equal(s, http.StatusOK, status, body)
	return body
}

// shows waits until a page shows a text. A limit that nobody has noted yet has no page.
func (s *scene) shows(path, text string) {
	s.Helper()
	require.Eventually(s, func() bool {
		status, body, _ := s.send(http.MethodGet, path, nil)
		return status == http.StatusOK && strings.Contains(body, text)
	}, time.Minute, 100*time.Millisecond, "%s shows %q", path, text)
}

func (s *scene) does(action string, form url.Values) {
	s.Helper()
	status, body, h := s.send(http.MethodPost, action, form)
	require.Equal(s, http.StatusSeeOther, status, body)
	to := "limit?name=" + url.QueryEscape(form.Get("name"))
	if key := form.Get("key"); key != "" {
		to += "&key=" + url.QueryEscape(key)
	}
	require.Equal(s, to, h.Get("Location"), "relative, as the page does not know where it is mounted")
}

func (s *scene) state(l *reserve.Limiter) reserve.State {
	s.Helper()
	st, err := l.State(s.Context())
	require.NoError(s, err)
	return st
}

// Hostile names and keys are shown as they are, and every address in the page is relative.
func TestPages(t *testing.T) {
	s := newScene(t, monitor.Config{})
	for _, name := range []string{"<script>alert(1)</script>", `"; --`, "openai"} {
		l := s.limiter(name, reserve.Every(time.Hour))
		require.NoError(t, l.For(`<img src=x onerror=alert(1)>`).Wait(t.Context()))
		s.waits(2, l.For(`<img src=x onerror=alert(1)>`).Wait)
	}
	s.shows("", "openai")
	s.shows("", "&lt;script&gt;alert(1)&lt;/script&gt;")
	s.shows("", "&#34;; --")
	list := s.get("")
	assert.NotContains(t, list, "<script>alert")
	s.shows("limit?name="+url.QueryEscape(`"; --`), "&lt;img src=x onerror=alert(1)&gt;")
	detail := s.get("limit?name=" + url.QueryEscape("<script>alert(1)</script>"))
	assert.NotContains(t, detail, "<img")
	for _, page := range []string{list, detail} {
		for _, attribute := range []string{`href="/`, `src="/`, `action="/`, "http://", "https://", " style=", " onclick="} {
			assert.NotContains(t, page, attribute)
		}
	}
	status, body, _ := s.send(http.MethodGet, "limit?name=nobody", nil)
	assert.Equal(t, http.StatusNotFound, status, body)
	_, _, h := s.send(http.MethodGet, "", nil)
	assert.Contains(t, h.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self';")
	for _, file := range []string{"page.js", "page.css", "icon.svg"} {
		s.get("static/" + file)
	}
}

// What people do in the page is done.
func TestChanges(t *testing.T) {
	s := newScene(t, monitor.Config{Who: func(*http.Request) string { return "ann" }})
	l := s.limiter("openai", reserve.PerSecond(10))
	require.NoError(t, l.Wait(t.Context()))
	s.shows("", "openai")
	form := func(pairs ...string) url.Values {
		v := url.Values{"name": {"openai"}}
		for i := 0; i < len(pairs); i += 2 {
			v.Set(pairs[i], pairs[i+1])
		}
		return v
	}
	s.does("pause", form("for", "1h", "reason", "their status page is red"))
	st := s.state(l)
	assert.InDelta(t, time.Hour, st.Paused, float64(time.Minute))
	assert.Regexp(t, `^their status page is red \(by ann, \d+ \w{3} \d\d:\d\d UTC\)$`, st.PauseReason)
	s.shows("limit?name=openai", st.PauseReason)
	s.does("resume", form())
	assert.Zero(t, s.state(l).Paused)
	s.does("pause", form("for", "1h", "reason", strings.Repeat("long ", 100)))
	assert.Regexp(t, ` \(by ann, [^)]+ UTC\)$`, s.state(l).PauseReason)
	s.does("resume", form())

	s.does("set", form("to", "4/s burst 2", "for", "1h"))
	st = s.state(l)
	assert.InDelta(t, 4, st.Rate, 1e-9)
	assert.InDelta(t, time.Hour, st.SetFor, float64(time.Minute))
	s.shows("limit?name=openai", "The limit was set to 4/s burst 2 by ann, for ")
	s.shows("limit?name=openai", "4/s burst 2 (set; configured 10/s)")
	s.shows("", "4/s burst 2 (set; configured 10/s)")
	s.does("reset", form())
	assert.False(t, s.state(l).Set)

	s.does("pause", form("for", "1h", "key", "tenant"))
	assert.NotZero(t, s.state(l.For("tenant")).Paused)
	assert.Zero(t, s.state(l).Paused)

	for action, wrong := range map[string]url.Values{
		"pause":   form("for", "soon"),
		"set":     form("to", "fast"),
		"resume":  {"name": {"openai"}, "key": {strings.Repeat("k", 1000)}},
		"release": {"name": {"openai"}, "key": {strings.Repeat("k", 1000)}, "slot": {"x:1"}},
	} {
		status, body, _ := s.send(http.MethodPost, action, wrong)
		assert.Equal(t, http.StatusBadRequest, status, "%s: %s", action, body)
	}
	for _, d := range []string{"-1h", "0s"} {
		status, body, _ := s.send(http.MethodPost, "pause", form("for", d))
		assert.Equal(t, http.StatusBadRequest, status)
		assert.Contains(t, body, "for: must be above 0")
	}
	status, _, _ := s.send(http.MethodPost, "pause", url.Values{"name": {"nobody"}, "for": {"1h"}})
	assert.Equal(t, http.StatusNotFound, status)
}

// A slot that is taken away in the page is for the next call.
func TestRelease(t *testing.T) {
	s := newScene(t, monitor.Config{})
	l := s.limiter("renders", reserve.Concurrent(1))
	_, err := l.Acquire(t.Context(), 1)
	require.NoError(t, err)
	s.shows("limit?name=renders", "Calls that hold slots")
	h := s.state(l).Holders[0]
	slot := fmt.Sprintf("%s:%d", h.Process, h.Number)
	assert.Contains(t, s.get("limit?name=renders"), slot)
	s.does("release", url.Values{"name": {"renders"}, "slot": {slot}})
	assert.Empty(t, s.state(l).Holders)
	s.does("release", url.Values{"name": {"renders"}, "slot": {slot}}) // it is gone already
}

// The page names the caller of serve that holds a slot, and says when its lease ends.
func TestCallerWithALease(t *testing.T) {
	t.Parallel()
	s := newScene(t, monitor.Config{})
	r, err := s.limiter("renders", reserve.Concurrent(1)).Flow("http:web-3/4711/d41d8cd98f00b204e9800998ecf8427e").Acquire(t.Context(), 1)
	require.NoError(t, err)
	_, lent, err := r.Lend(t.Context(), reserve.Lease{}, time.Hour)
	require.NoError(t, err)
	require.True(t, lent)
	s.shows("limit?name=renders", "Calls that hold slots")
	page := s.get("limit?name=renders")
	assert.Contains(t, page, `<b>the caller web-3/4711</b><br><span class="soft">lease ends in `)
	assert.NotContains(t, page, "d41d8cd98f00b204e9800998ecf8427e")
}

// A page for reading only, and another site, change nothing.
func TestNobodyElseChanges(t *testing.T) {
	s := newScene(t, monitor.Config{ReadOnly: true})
	l := s.limiter("openai", reserve.PerSecond(10))
	require.NoError(t, l.Wait(t.Context()))
	s.shows("", "openai")
	assert.NotContains(t, s.get("limit?name=openai&do=pause&for=1h&step=plan"), `method="post"`)
	form := url.Values{"name": {"openai"}, "for": {"1h"}, "to": {"1/s"}}
	for _, action := range []string{"pause", "stop", "resume", "set", "reset", "refill", "release", "", "limit", "events"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
			status, _, _ := s.send(method, action, form)
			assert.Equal(t, http.StatusForbidden, status, "%s %s", method, action)
		}
	}
	other := newScene(t, monitor.Config{})
	foreign := other.limiter("openai", reserve.PerSecond(10))
	require.NoError(t, foreign.Wait(t.Context()))
	other.shows("", "openai")
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
		status, _, _ := other.send(http.MethodPost, "pause", form, headers...)
		assert.Equal(t, http.StatusForbidden, status)
	}
	assert.Zero(t, s.state(l).Paused)
	assert.Zero(t, other.state(foreign).Paused)
}

// The page moves: each look of the server is an event, of all limits or of one.
func TestEvents(t *testing.T) {
	s := newScene(t, monitor.Config{})
	l := s.limiter("openai", reserve.Every(time.Hour))
	require.NoError(t, l.Wait(t.Context()))
	s.waits(3, l.Wait)
	for _, path := range []string{"events", "events?name=openai"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.Equal(t, "text/event-stream", answer.Header.Get("Content-Type"))
		looks, waiting := 0, false
		for lines := bufio.NewScanner(answer.Body); (looks < 3 || !waiting) && lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				require.True(t, json.Valid([]byte(data)))
				looks++
				waiting = waiting || strings.Contains(data, "3 calls wait")
			}
		}
		assert.True(t, waiting, "%s: it sees three calls wait", path)
		_ = answer.Body.Close()
		cancel()
	}
}

// parts reads the events of a page until its parts are as wanted.
func (s *scene) parts(path string, wanted func(error string, parts map[string]string) bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	require.NoError(s, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(s, err)
	defer func() { _ = answer.Body.Close() }()
	shown := map[string]string{}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var told struct {
				Error string
				Parts map[string]string
			}
			require.NoError(s, json.Unmarshal([]byte(data), &told))
			maps.Copy(shown, told.Parts)
			if wanted(told.Error, shown) {
				return
			}
		}
	}
	require.Fail(s, "the events end", "%v: %v", lines.Err(), shown)
}

// An open page of a limit marks what it shows as old while Redis is away.
func TestLimitWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	s := newScene(t, monitor.Config{})
	require.NoError(t, s.limiter("openai", reserve.PerSecond(10)).Wait(t.Context()))
	s.shows("limit?name=openai", "s-fine")
	s.parts("events?name=openai", func(failed string, parts map[string]string) bool {
		_ = s.client.Close()
		return strings.Contains(parts["title"], "Redis does not answer this page") && !strings.Contains(parts["title"], "s-fine") &&
			strings.Contains(parts["why"], "All below is as of ") && failed != "" && parts["tiles"] != ""
	})
}

// An open page of a limit says so when no process has used the limit for so long that Redis has forgotten it.
func TestLimitThatIsGone(t *testing.T) {
	t.Parallel()
	s := newScene(t, monitor.Config{})
	l := s.limiter("openai", reserve.PerSecond(10))
	require.NoError(t, l.Wait(t.Context()))
	s.shows("limit?name=openai", "s-fine")
	require.NoError(t, l.Close())
	s.parts("events?name=openai", func(failed string, parts map[string]string) bool {
		require.NoError(t, s.client.Del(t.Context(), lua.Index(s.prefix)).Err())
		return failed == "" && strings.Contains(parts["title"], "s-idle") && strings.Contains(parts["why"], "It is gone: no process has used it lately") &&
			parts["tiles"] == "" && parts["keys"] == ""
	})
}

// Without Redis the page says so, and shows what it knew.
func TestRedisIsAway(t *testing.T) {
	s := newScene(t, monitor.Config{})
	l := s.limiter("openai", reserve.PerSecond(10))
	require.NoError(t, l.Wait(t.Context()))
	s.shows("", "openai")
	require.NoError(t, s.client.Close())
	s.shows("", "Redis does not answer this page")
	out := s.get("")
	assert.Contains(t, out, "All below is as of ")
	assert.Contains(t, out, "openai")
	assert.NotContains(t, out, "Nothing is wrong")
}

// No page has a forecast for a new call if no process is alive to make it.
func TestDeadFleet(t *testing.T) {
	t.Parallel()
	s := newScene(t, monitor.Config{})
	worker := *s
	worker.client = s.server.Client(t)
	l := worker.limiter("openai", reserve.Every(time.Hour)).For("acme")
	require.NoError(t, l.Wait(t.Context()))
	worker.waits(1, l.Wait)
	s.shows("limit?name=openai", "1 call waits")
	require.NoError(t, worker.client.Close())
	beats := lua.BeatKeys(s.prefix, "", "openai")[0]
	processes, err := s.client.ZRange(t.Context(), beats, 0, -1).Result()
	require.NoError(t, err)
	require.NoError(t, s.client.ZAdd(t.Context(), beats, redis.Z{Score: 1, Member: processes[0]}).Err())
	page := s.get("limit?name=openai")
	assert.Contains(t, page, "<dt>A new call waits</dt><dd>not known</dd>")
	assert.Contains(t, page, `data-label="a new call waits">not known</td>`)
	assert.Contains(t, page, "<dt>Longest wait</dt><dd>not known</dd>")
}

// What the pages say fits together.
func TestTextsOfThePages(t *testing.T) {
	t.Parallel()
	s := newScene(t, monitor.Config{})
	require.NoError(t, s.limiter("slow", reserve.Every(time.Hour)).Wait(t.Context()))
	require.NoError(t, s.limiter("stopped", reserve.PerSecond(10)).Wait(t.Context()))
	require.NoError(t, s.limiter("stopped", reserve.PerSecond(10)).Stop(t.Context(), time.Now().Add(time.Hour), "no credit"))
	keys := s.limiter("keys", reserve.PerSecond(10))
	for i := range 60 {
		require.NoError(t, keys.For(fmt.Sprint(i)).Wait(t.Context()))
	}
	s.shows("limit?name=slow", "<dt>Used</dt>")
	assert.NotContains(t, s.get("limit?name=slow"), "<dt>Permits per second</dt>", "it would be 0 while the limit is used up")
	s.shows("limit?name=keys", `Nothing holds it back</span>`)
	s.shows("", `Stopped: calls fail</span> <span>hard stop: no credit</span>`)
	s.shows("", "at least 50 keys used lately")
	require.NoError(t, keys.Close())
	s.shows("limit?name=keys", "1 idle or closed")
	assert.NotContains(t, s.get("limit?name=keys"), ">Heartbeat</th>", "a table without rows")
}

// A page that reads another Redis than the fleet's says what it reads.
func TestNoLimits(t *testing.T) {
	t.Parallel()
	s := newScene(t, monitor.Config{})
	out := s.get("")
	assert.Contains(t, out, "Nothing to see: no process has used a limit lately in this Redis under the prefix ")
	assert.NotContains(t, out, "Nothing is wrong")
}

func TestNew(t *testing.T) {
	_, err := monitor.New(nil, monitor.Config{})
	require.ErrorIs(t, err, reserve.ErrInvalid)
	require.ErrorContains(t, err, "client")
}

// The page says whose limit is of another kind than the one in force.
func TestAnotherKindIsTold(t *testing.T) {
	t.Parallel()
	s := newScene(t, monitor.Config{})
	require.NoError(t, s.limiter("api", reserve.PerSecond(100)).Wait(t.Context()))
	s.shows("limit?name=api", "Nothing holds it back")
	require.ErrorIs(t, s.limiter("api", reserve.Rolling(5, time.Second)).Wait(t.Context()), reserve.ErrInvalid)
	s.shows("limit?name=api", "it is configured with 5/s rolling, and 100/s is in force, which is of another kind")
	s.shows("limit?name=api", "5/s rolling (of another kind: its calls fail)")
	s.shows("", "Limits of two kinds")
}

// Before the resume of a limit that was stopped with others, the page names the command that resumes all.
func TestResumeOfOneOfSeveral(t *testing.T) {
	t.Parallel()
	s := newScene(t, monitor.Config{})
	var both []*reserve.Limiter
	for _, name := range []string{"requests", "tokens"} {
		l, err := reserve.New(s.client, reserve.Config{Name: name, Group: "api", Prefix: s.prefix, Limit: reserve.PerSecond(10)})
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		both = append(both, l)
	}
	joint, err := reserve.All(both...)
	require.NoError(t, err)
	require.NoError(t, joint.Wait(t.Context()))
	require.NoError(t, joint.Stop(t.Context(), time.Time{}, "no credit"))
	command := "fleetpace resume api --prefix " + s.prefix
	s.shows("", command+"</code>")
	s.shows("limit?name=api/requests&do=resume", "end the stop of api/requests. Further limits were stopped with it: to end the whole stop, run "+command+".</p>")
}

// Before a change, the page says what will happen. It changes nothing if the limit has changed since then.
func TestWhatWillHappen(t *testing.T) {
	t.Parallel()
	s := newScene(t, monitor.Config{Who: func(*http.Request) string { return "ann" }})
	l := s.limiter("openai", reserve.PerSecond(10))
	require.NoError(t, l.For("acme").Wait(t.Context()))
	s.shows("", "openai")
	at := "limit?name=openai&key=acme"
	for query, text := range map[string]string{
		"&do=pause&for=1h&reason=it%27s+red&step=plan": "pause openai/acme for 1h0m0s: no process of the fleet calls until",
		"&do=pause&for=soon&step=plan":                 "for: must be a time such as 90s or 2h, got &#34;soon&#34;",
		"&do=set&to=4/s&for=1h&step=plan":              "set openai/acme to 4/s for 1h0m0s (it is 10/s now)",
		"&do=set&to=fast&step=plan":                    "to: ",
		"&do=stop&for=2h&reason=no+credit&step=plan":   "stop openai/acme: calls of all processes fail until",
		"&do=stop&step=plan":                           "calls of all processes fail until it is resumed, for a day at most",
		"&do=refill":                                   "permits of openai/acme available instead of",
		"&do=release&slot=x:1":                         "This slot is free",
	} {
		assert.Contains(t, s.get(at+query), text, query)
	}
	assert.Contains(t, s.get(at+"&do=pause&for=1h&reason=it%27s+red&step=plan"), `fleetpace pause openai acme --for 1h0m0s --reason &#39;it&#39;\&#39;&#39;s red&#39; --prefix `+s.prefix+"</code>")
	assert.Contains(t, s.get("limit?name=openai&key=&do=pause&for=1h&step=plan"), "this change affects none of these keys: name one")
	assert.NotContains(t, s.get(at), `method="post"`, "the first click changes nothing")
	assert.Zero(t, s.state(l.For("acme")).Paused, "nothing has happened")

	form := url.Values{"name": {"openai"}, "key": {"acme"}, "for": {"1h"}, "in-force": {"20/s"}}
	status, body, _ := s.send(http.MethodPost, "pause", form)
	assert.Equal(t, http.StatusConflict, status, body)
	assert.Zero(t, s.state(l.For("acme")).Paused)
	form.Set("in-force", "10/s")
	s.does("pause", form)
	assert.NotZero(t, s.state(l.For("acme")).Paused)
	s.shows("", "fleetpace resume openai acme --prefix "+s.prefix+"</code>")
	s.does("resume", form)
	s.does("refill", form)
	s.does("stop", url.Values{"name": {"openai"}, "key": {"acme"}, "reason": {"no credit"}})
	require.ErrorIs(t, l.For("acme").Wait(t.Context()), reserve.ErrExhausted)
	assert.NotContains(t, s.get(at), "do=stop", "it is stopped already")
	assert.Contains(t, s.get(at), "Resume</a>")
	assert.Regexp(t, `(?s)key acme: stopped: no credit <span class="soft">\(by ann\).*refilled.*resumed.*paused for 1h0m0s`, s.get(at), "the last change comes first")
}

// The list is sorted, filtered and searched by its address, without a script.
func TestListByAddress(t *testing.T) {
	t.Parallel()
	s := newScene(t, monitor.Config{})
	for name, limit := range map[string]reserve.Limit{"a-idle": reserve.PerSecond(10), "b-queue": reserve.Every(time.Hour), "c-paused": reserve.PerSecond(10)} {
		l := s.limiter(name, limit)
		require.NoError(t, l.Wait(t.Context()))
		if name == "b-queue" {
			s.waits(3, l.Wait)
		}
		if name == "c-paused" {
			require.NoError(t, l.Pause(t.Context(), time.Hour, "red"))
		}
		s.shows("", name)
	}
	s.shows("", "3 calls wait")
	order := func(path string) (names []string) {
		for _, part := range strings.Split(s.get(path), `data-id="`)[1:] {
			names = append(names, part[:strings.Index(part, `"`)])
		}
		return names
	}
	require.Eventually(t, func() bool { return order("")[0] == "c-paused" }, time.Minute, 100*time.Millisecond)
	assert.Equal(t, []string{"c-paused", "b-queue", "a-idle"}, order(""), "the worst first")
	assert.Equal(t, []string{"a-idle", "b-queue", "c-paused"}, order("?sort=name"))
	assert.Equal(t, []string{"b-queue", "a-idle", "c-paused"}, order("?sort=waiting"))
	assert.Equal(t, []string{"c-paused"}, order("?show=stop"))
	assert.Equal(t, []string{"b-queue"}, order("?find=QUEUE"))
	assert.Empty(t, order("?find=nothing"))
	assert.Contains(t, s.get(""), "1 limit stands still")
	assert.Contains(t, s.get("?sort=%3Cscript%3E&show=%22&find=%22%3E%3Cimg%3E"), "&#34;&gt;&lt;img&gt;")
}

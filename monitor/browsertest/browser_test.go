// Package browsertest looks at package monitor's page with a real Chromium. It is a module of its
// own, so that users of the page do not load what drives a browser.
//
//	cd monitor/browsertest && go test ./...
//
// FLEETPACE_SCREENSHOTS names a folder for pictures.
package browsertest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	cdp "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/monitor"
	"github.com/fleetpace/fleetpace/reserve"
)

// scene is a fleet, its page, and a browser.
type scene struct {
	*testing.T
	server  *redistest.Server
	client  *redis.Client
	prefix  string
	url     string // of the page
	browser context.Context
}

const patience = time.Minute

func newScene(t *testing.T) *scene {
	path, err := exec.LookPath("chromium")
	if err != nil {
		redistest.Missing(t, "chromium is not installed: apt-get install chromium")
	}
	s := &scene{T: t, server: redistest.Local(t), prefix: redistest.Prefix(t)}
	s.client = s.server.Client(t)
	web, err := monitor.New(s.client, monitor.Config{Prefix: s.prefix})
	require.NoError(t, err)
	server := httptest.NewServer(http.StripPrefix("/limits", web))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		require.NoError(t, web.Close())
	})
	s.url = server.URL + "/limits/"
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath(path), chromedp.DisableGPU)
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	browser, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	require.NoError(t, chromedp.Run(browser))
	s.browser = browser
	return s
}

func (s *scene) limiter(name string, limit reserve.Limit) *reserve.Limiter {
	l, err := reserve.New(s.server.Client(s), reserve.Config{Name: name, Prefix: s.prefix, Limit: limit})
	require.NoError(s, err)
	s.Cleanup(func() { _ = l.Close() })
	return l
}

// calls keeps calls going until the test ends, and counts them.
func (s *scene) calls(callers int, wait func(context.Context) error) *atomic.Int64 {
	var made atomic.Int64
	var busy sync.WaitGroup
	ctx, stop := context.WithCancel(s.Context())
	s.Cleanup(func() { stop(); busy.Wait() })
	for range callers {
		busy.Go(func() {
			for wait(ctx) == nil {
				made.Add(1)
			}
		})
	}
	return &made
}

// tab opens a page in a tab of its own.
func (s *scene) tab(path string, actions ...chromedp.Action) context.Context {
	s.Helper()
	tab, end := chromedp.NewContext(s.browser)
	s.Cleanup(end)
	require.NoError(s, chromedp.Run(tab, page.BringToFront())) // the tab lives as long as the context of the first one
	s.run(tab, append(actions, chromedp.Navigate(s.url+path))...)
	return tab
}

// run does something in a tab, which it brings to the front: a hidden page is not live.
func (s *scene) run(tab context.Context, actions ...chromedp.Action) {
	s.Helper()
	ctx, cancel := context.WithTimeout(tab, patience)
	defer cancel()
	require.NoError(s, chromedp.Run(ctx, append([]chromedp.Action{page.BringToFront()}, actions...)...))
}

// value is what an expression is in a tab.
func (s *scene) value(tab context.Context, expression string, to any) {
	s.Helper()
	s.run(tab, chromedp.Evaluate(expression, to))
}

// sees blocks until a condition is true in a tab. The browser looks at it after each change of the page.
func (s *scene) sees(tab context.Context, what, condition string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(tab, patience)
	defer cancel()
	require.NoError(s, chromedp.Run(ctx, page.BringToFront(), chromedp.Evaluate(fmt.Sprintf(`new Promise((seen) => {
		const look = () => { if (%s) { changes.disconnect(); seen(true); } };
		const changes = new MutationObserver(look);
		changes.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
		look();
	})`, condition), nil, resolved)), what)
}

// resolved makes an evaluation wait for its promise.
func resolved(p *cdp.EvaluateParams) *cdp.EvaluateParams { return p.WithAwaitPromise(true) }

// goes does what loads another page, and blocks until that is loaded.
func (s *scene) goes(tab context.Context, actions ...chromedp.Action) {
	s.Helper()
	ctx, cancel := context.WithTimeout(tab, patience)
	defer cancel()
	require.NoError(s, chromedp.Run(ctx, page.BringToFront()))
	_, err := chromedp.RunResponse(ctx, actions...)
	require.NoError(s, err)
}

// call makes a call, and blocks until it has its turn.
func (s *scene) call(l *reserve.Limiter) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	require.NoError(s, l.Wait(ctx))
}

func quoted(text string) string {
	literal, _ := json.Marshal(text) // never fails
	return string(literal)
}

// cell is the expression for the text of a cell of the list.
func cell(id string, column int) string {
	return fmt.Sprintf(`(([...document.querySelectorAll("tbody tr")].find((r) => r.dataset.id === %s)?.cells[%d].textContent) || "")`, quoted(id), column)
}

// order is the condition that the list has these limits in this order.
func order(ids ...string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("tbody tr")].map((r) => r.dataset.id).join() === %s`, quoted(strings.Join(ids, ",")))
}

// picture writes a screenshot, if somebody wants them.
func (s *scene) picture(tab context.Context, name string) {
	s.Helper()
	folder := os.Getenv("FLEETPACE_SCREENSHOTS")
	if folder == "" {
		return
	}
	var png []byte
	s.run(tab, chromedp.Sleep(2*time.Second), chromedp.FullScreenshot(&png, 100))
	require.NoError(s, os.MkdirAll(folder, 0o750))
	require.NoError(s, os.WriteFile(filepath.Join(folder, name+".png"), png, 0o600))
}

// Rows appear and move without a reload.
func TestRowsAppearAndMove(t *testing.T) {
	s := newScene(t)
	tab := s.tab("")
	s.run(tab, chromedp.Evaluate("window.loaded = 1", nil))
	openai := s.limiter("openai", reserve.PerSecond(20))
	s.calls(3, openai.Wait)
	s.sees(tab, "a row appears", cell("openai", 0)+`.includes("20/s")`)
	s.sees(tab, "its use", cell("openai", 3)+` !== ""`)
	require.NoError(t, openai.SetLimit(t.Context(), reserve.PerSecond(40), 0)) // its use is a mean, which follows
	s.sees(tab, "its use moves", `(window.uses ??= new Set()).add(`+cell("openai", 3)+`).size > 3`)
	s.calls(50, s.limiter("maps", reserve.Every(time.Hour)).Wait)
	s.sees(tab, "another one appears, and calls wait", cell("maps", 4)+` === "50"`)
	var loaded int
	s.value(tab, "window.loaded", &loaded)
	assert.Equal(t, 1, loaded, "it was not loaded again")

	s.goes(tab, chromedp.SendKeys("#find", "map\r"))
	s.sees(tab, "it is searched", order("maps"))
	s.run(tab, chromedp.Navigate(s.url), chromedp.Focus(`thead a[href="?sort=name"]`))
	s.goes(tab, chromedp.KeyEvent("\r"))
	s.sees(tab, "it is sorted, by the keyboard", order("maps", "openai"))
	s.run(tab, chromedp.Focus(`thead a[href="?sort=use"]`))
	s.goes(tab, chromedp.KeyEvent("\r"))
	s.sees(tab, "by its use, and the looks keep the order", order("openai", "maps"))
	s.run(tab, chromedp.Navigate(s.url))
	for _, look := range []struct {
		name, scheme string
		width        int64
	}{{"list", "light", 1280}, {"list-dark", "dark", 1280}, {"list-narrow", "light", 360}, {"list-narrow-dark", "dark", 360}, {"list-320", "light", 320}, {"list-700", "light", 700}, {"list-985", "light", 985}} {
		s.run(tab, chromedp.EmulateViewport(look.width, 700), emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}}))
		var wide bool
		s.value(tab, "document.documentElement.scrollWidth > innerWidth", &wide)
		assert.False(t, wide, "%s: nothing is cut off", look.name)
		s.picture(tab, look.name)
	}
}

// A pause that somebody makes in the page stops the fleet, and is counted down: in the page and
// in the command's watch.
func TestPauseInThePage(t *testing.T) {
	s := newScene(t)
	l := s.limiter("openai", reserve.PerSecond(50))
	made := s.calls(5, l.Wait)
	s.call(l)
	binary := filepath.Join(t.TempDir(), "fleetpace")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/fleetpace")
	build.Dir = "../.."
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	list := s.tab("")
	s.sees(list, "the list shows it", cell("openai", 1)+` !== ""`)
	tab := s.tab("limit?name=openai")
	s.run(tab, chromedp.SetValue(`#change input[name=for]`, "1h"), chromedp.SetValue(`#change input[name=reason]`, "<b>red</b>"))
	s.goes(tab, chromedp.SendKeys(`#change input[name=for]`, "\r"))
	st, err := l.State(t.Context())
	require.NoError(t, err)
	require.Zero(t, st.Paused, "Enter in a field changes nothing: the page says what will happen")
	s.picture(tab, "limit-pause")
	clicked := time.Now()
	s.goes(tab, chromedp.Click(`#change form[method=post] button`))
	took := time.Since(clicked)
	st, err = l.State(t.Context())
	require.NoError(t, err)
	require.NotZero(t, st.Paused, "the page that follows is of the paused limit")
	time.Sleep(time.Second)
	before := made.Load()
	time.Sleep(2 * time.Second)
	assert.Equal(t, before, made.Load(), "a second later nobody calls")
	t.Logf("MEASURE the pause was in force, and the page said so, %v after the click", took.Round(time.Millisecond))

	counted := cell("openai", 1)
	s.sees(list, "it is counted down, with its reason as text",
		counted+`.includes("59m") && `+counted+`.includes("<b>red</b>") && (window.counts ??= new Set()).add(`+counted+`).size > 2`)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	watch := exec.CommandContext(ctx, binary, "watch", "--redis", s.server.URL(), "--prefix", s.prefix)
	text, err := watch.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, watch.Start())
	shown := false
	for lines := bufio.NewScanner(text); !shown && lines.Scan(); {
		shown = strings.Contains(lines.Text(), "<b>red</b>")
	}
	cancel()
	_ = watch.Wait() // it is killed
	assert.True(t, shown, "the command shows the reason as text")
	s.picture(tab, "limit-paused")
	s.goes(tab, chromedp.Click(`form[action=resume] button`))
	s.call(l)
	require.NoError(t, l.Pause(t.Context(), time.Hour, "by another"))
	s.sees(tab, "without a reload, the edge has the colour of what holds calls back",
		`getComputedStyle(document.querySelector("#title .s-stop")||document.body).color === getComputedStyle(document.querySelector(".why")).borderLeftColor`)
	require.NoError(t, l.Resume(t.Context()))
	for _, look := range []struct {
		name, scheme string
		width        int64
	}{{"limit", "light", 1280}, {"limit-dark", "dark", 1280}, {"limit-narrow", "light", 360}, {"limit-narrow-dark", "dark", 360}} {
		s.run(tab, chromedp.EmulateViewport(look.width, 900), emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}}))
		s.picture(tab, look.name)
	}
}

// What is wrong appears although the keyboard focus is there, and the focus stays on the same link.
func TestFocusStays(t *testing.T) {
	s := newScene(t)
	pause := func(name string) {
		l := s.limiter(name, reserve.PerSecond(50))
		s.call(l)
		require.NoError(t, l.Pause(t.Context(), time.Hour, ""))
	}
	pause("openai")
	tab := s.tab("")
	for i, part := range []string{"#wrong", "#limits"} {
		link := part + ` a[href="limit?name=openai"]`
		s.sees(tab, "the link", `document.querySelector(`+quoted(link)+`)`)
		var there bool
		s.value(tab, `(document.querySelector(`+quoted(link)+`).focus(), true)`, &there) // in one step: the page may replace the link
		pause(fmt.Sprint("another-", i))                                                 // it moves the first one to another row
		s.sees(tab, part+" tells of the other one, too", fmt.Sprintf(`document.querySelector("#wrong").textContent.includes("%d limits stand still") && `, i+2)+order(append([]string{"another-0", "another-1"}[:i+1], "openai")...))
		s.value(tab, `document.activeElement === document.querySelector(`+quoted(link)+`)`, &there)
		assert.True(t, there, "the focus stays in %s", part)
	}
}

// Pages that nobody sees hold no connection, so a browser shows more pages than it opens connections.
func TestManyTabs(t *testing.T) {
	s := newScene(t)
	s.call(s.limiter("openai", reserve.PerSecond(50)))
	for range 10 {
		s.sees(s.tab(""), "the page is live", `document.getElementById("state").textContent === "live"`)
	}
}

// Names and keys may hold anything, and are shown as text.
func TestHostileNames(t *testing.T) {
	s := newScene(t)
	hostile := []string{`<script>window.pwned = 1</script>`, `"; --`, `<img src=x onerror="window.pwned = 1">`, `'); alert(1)//`}
	for _, name := range hostile {
		l := s.limiter(name, reserve.Every(time.Hour))
		s.calls(2, l.For(name).Wait)
	}
	list := s.tab("")
	for _, name := range hostile {
		s.sees(list, name, cell(name, 0)+`.startsWith(`+quoted(name)+`)`)
		tab := s.tab("limit?name=" + url.QueryEscape(name))
		s.sees(tab, "its key, after a look", `document.getElementById("state").textContent === "live" &&
			[...document.querySelectorAll("#keys tbody th b")].some((c) => c.textContent === `+quoted(name)+`)`)
		var pwned bool
		s.value(tab, "Boolean(window.pwned)", &pwned)
		require.False(t, pwned)
	}
}

// A limit of 10,000 keys costs a page little: figures, and bounds that are far from them.
func TestManyKeys(t *testing.T) {
	s := newScene(t)
	l := s.limiter("tenants", reserve.PerSecond(100))
	const keys = 10_000
	var all sync.WaitGroup
	for part := range 50 {
		all.Go(func() {
			for i := part; i < keys; i += 50 {
				assert.NoError(t, l.For(fmt.Sprint("tenant-", i)).Wait(t.Context()))
			}
		})
	}
	all.Wait()
	for _, path := range []string{"", "limit?name=tenants"} {
		tab := s.tab(path)
		var paint float64
		s.run(tab, chromedp.Evaluate(`new Promise((painted) => new PerformanceObserver((list) => {
			const first = list.getEntriesByName("first-contentful-paint")[0];
			if (first) painted(first.startTime);
		}).observe({type: "paint", buffered: true}))`, &paint, resolved))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		const pages = 10
		var streams sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		events := s.url + "events" + strings.TrimPrefix(path, "limit")
		looks := make(chan struct{})
		for range pages {
			streams.Go(func() {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, events, nil)
				if err != nil {
					return
				}
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					return
				}
				defer answer.Body.Close()
				text := make([]byte, 4096)
				for n, err := answer.Body.Read(text); err == nil; n, err = answer.Body.Read(text) {
					if n > 0 && strings.Contains(string(text[:n]), "event: look") {
						select {
						case looks <- struct{}{}:
						case <-ctx.Done():
						}
					}
				}
			})
		}
		late := time.After(patience)
		for range 3 * pages {
			select {
			case <-looks:
			case <-late:
				require.Fail(t, "not all pages are live")
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		stop()
		streams.Wait()
		each := (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / pages / (1 << 20)
		t.Logf("MEASURE %q: first paint after %.0f ms, %.2f MB per page", path, paint, each)
		assert.Less(t, each, 5.)
	}
}

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// asCaller lets the test binary be a caller of serve, at this address, that holds both slots of a limit.
const asCaller = "FLEETPACE_TEST_CALLER"

// holdSlots takes two slots and renews them until one is lost. It says when it has both, and how the server tells of the
// loss.
func holdSlots(address string) {
	post := func(path, body string) (status int, named string) {
		r, err := http.NewRequest(http.MethodPost, address+path, strings.NewReader(body))
		if err != nil {
			panic(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Fleetpace-Caller", fmt.Sprintf("web-3/%d", os.Getpid()))
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			panic(err)
		}
		defer func() { _ = w.Body.Close() }()
		var a struct{ Turn string }
		_ = json.NewDecoder(w.Body).Decode(&a)
		return w.StatusCode, fmt.Sprintf(`{"turn":%q}`, a.Turn)
	}
	_, one := post("/v1/wait", `{"limits":[{"name":"gpu"}]}`)
	_, two := post("/v1/wait", `{"limits":[{"name":"gpu"}]}`)
	fmt.Println("it holds both")
	for turns := []string{one, two}; ; time.Sleep(200 * time.Millisecond) {
		for _, turn := range turns {
			if status, _ := post("/v1/renew", turn); status >= 300 {
				fmt.Println(status)
				return
			}
		}
	}
}

// A caller of serve that holds all slots is stopped. Why names it, and the command that mends it lets the next call have
// a slot. The caller that goes on hears that its slots are lost.
func TestStoppedCallerHoldsAllSlots(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	s := newScene(t, server)
	turns := serveTurnsOf(t, server, s.prefix, "limits:\n  - {name: gpu, limit: 2 at once}\n", "127.0.0.1:0", "-lease", "1m")
	caller := exec.Command(os.Args[0])
	caller.Env = append(os.Environ(), asCaller+"="+turns.address)
	out, err := caller.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, caller.Start())
	t.Cleanup(func() { _ = caller.Process.Kill(); _ = caller.Wait() })
	says := bufio.NewScanner(out)
	require.True(t, says.Scan())
	require.NoError(t, caller.Process.Signal(syscall.SIGSTOP))
	next := make(chan int, 1)
	go func() {
		status, _ := ask(t.Context(), turns.client(), "/v1/wait", `{"limits":[{"name":"gpu"}]}`)
		next <- status
	}()
	began := time.Now()
	var why struct {
		Reason, Text, Command string
		Evidence              []string
	}
	require.Eventually(t, func() bool {
		code, text, _ := s.command("", "why", "gpu", "-o", "json")
		return code == 0 && json.Unmarshal([]byte(text), &why) == nil && why.Reason == "slots"
	}, 20*time.Second, 50*time.Millisecond)
	found := time.Since(began)
	silent := fmt.Sprintf(`the caller web-3/%d (holds 1 slot )?for \S+; its lease ends in (\d\S*) unless the caller renews it`, caller.Process.Pid)
	require.Regexp(t, "^All 2 slots are held, the longest by "+silent, why.Text)
	ends, err := time.ParseDuration(regexp.MustCompile(silent).FindStringSubmatch(strings.Join(why.Evidence, "\n"))[2])
	require.NoError(t, err)
	require.LessOrEqual(t, ends, time.Minute)
	require.Greater(t, ends, 30*time.Second)
	slot := why.Command[strings.LastIndex(why.Command, " "):]
	require.Regexp(t, `(?m)^SLOT .* LEASE ENDS IN +DOING$`, s.does("show", "gpu"))
	require.Regexp(t, `(?m)^`+regexp.QuoteMeta(slot[1:])+` .* \d\S*s +http:web-3/`, s.does("show", "gpu"), "a shell reads it as one word")
	s.does(append(strings.Fields(strings.ReplaceAll(why.Command, "'", ""))[1:], "-y")...)
	require.Equal(t, http.StatusOK, <-next)
	t.Logf("MEASURE found after %v, mended after %v", found.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	require.NoError(t, caller.Process.Signal(syscall.SIGCONT))
	require.True(t, says.Scan())
	require.Equal(t, "404", says.Text())
}

package reserve_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

func init() {
	if wantsRealRedis() {
		// Linux ends the server with the thread that started it, and this one, of
		// TestMain, lives for as long as the process.
		runtime.LockOSThread()
	}
}

// startRealRedis starts a redis-server that shows the time of a file. It ends
// with stop, or with this process.
func startRealRedis() (r *realRedis, stop func(), err error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, nil, err
	}
	faketime, err := findFaketime()
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "fleetpace-")
	if err != nil {
		return nil, nil, err
	}
	r = &realRedis{dir: dir, socket: filepath.Join(dir, "redis")}
	if err := r.tell(time.Now()); err != nil {
		return nil, nil, err
	}
	server := exec.Command(binary, "--port", "0", "--unixsocket", r.socket, "--dir", dir,
		"--save", "", "--appendonly", "no", "--logfile", filepath.Join(dir, "log"))
	server.Env = append(os.Environ(),
		// jemalloc asks for the time before libfaketime is ready, so libc's own
		// malloc stands before it.
		"LD_PRELOAD="+faketime+" libc.so.6",
		"FAKETIME_TIMESTAMP_FILE="+r.clock(), "FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_FMT=%s", "TZ=UTC")
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		return nil, nil, err
	}
	stop = func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		_ = os.RemoveAll(dir)
	}
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conn, err := r.Dial()
		if err == nil {
			return r, stop, conn.Close()
		}
		if time.Now().After(until) {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			stop()
			return nil, nil, fmt.Errorf("redis-server does not serve: %w\n%s", err, log)
		}
	}
}

func findFaketime() (string, error) {
	for _, dir := range []string{"/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/lib64/faketime", "/usr/local/lib/faketime"} {
		if found, _ := filepath.Glob(filepath.Join(dir, "libfaketime.so.1")); len(found) > 0 {
			return found[0], nil
		}
	}
	return "", errors.New("there is no libfaketime (apt-get install faketime)")
}

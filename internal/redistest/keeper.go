package redistest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// envKeeper makes the test binary a keeper. It holds an order as JSON.
const envKeeper = "FLEETPACE_REDISTEST_KEEPER"

const (
	startTime  = 3 * time.Minute  // for a keeper to start its server, including an image pull
	removeTime = 20 * time.Second // for a keeper to remove its server
)

// order says which server a keeper is to start.
type order struct {
	Kind  Kind
	Image string   `json:",omitempty"` // KindDocker
	Args  []string `json:",omitempty"` // KindLocal: further options of the server
}

// report is the line with which a keeper replies to its order.
type report struct {
	URL   string `json:",omitempty"`
	ID    string `json:",omitempty"` // of the container, or of the process
	Error string `json:",omitempty"`
}

// keeper is the process that owns a server, as the test binary sees it.
type keeper struct {
	process *exec.Cmd
	// life is the writing end of the keeper's standard input. The keeper ends when it is closed, by
	// stop or by the end of this process. It must stay reachable, because a collected os.File
	// closes itself.
	life *os.File
}

// startKeeper starts a keeper and returns when its server answers. After an error nothing is left
// running.
func startKeeper(want order) (*keeper, report, error) {
	encoded, err := json.Marshal(want)
	if err != nil {
		return nil, report{}, err
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, report{}, err
	}
	stdin, life, err := os.Pipe()
	if err != nil {
		return nil, report{}, err
	}
	answer, stdout, err := os.Pipe()
	if err != nil {
		return nil, report{}, errors.Join(err, stdin.Close(), life.Close())
	}
	defer func() { _ = answer.Close() }()

	process := exec.Command(binary) //nolint:noctx // it lives as long as this process; life ends it
	process.Env = append(os.Environ(), envKeeper+"="+string(encoded),
		// A program built with -race waits a second before it exits.
		"GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	process.Stdin, process.Stdout = stdin, stdout
	// A shared standard error shows the errors of the keeper. It also makes "go test ./..." wait
	// for the keeper, because the command reads a test's output to its end.
	process.Stderr = os.Stderr
	process.SysProcAttr = ownGroup()
	err = process.Start()
	_, _ = stdin.Close(), stdout.Close()
	if err != nil {
		return nil, report{}, errors.Join(fmt.Errorf("start keeper: %w", err), life.Close())
	}
	k := &keeper{process: process, life: life}

	var got report
	_ = answer.SetReadDeadline(time.Now().Add(startTime + removeTime))
	line, err := bufio.NewReader(answer).ReadBytes('\n')
	if err != nil {
		err = fmt.Errorf("keeper gave no answer: %w", err)
	} else if err = json.Unmarshal(line, &got); err != nil {
		err = fmt.Errorf("keeper answered %q: %w", line, err)
	} else if got.Error != "" {
		err = errors.New(got.Error)
	}
	if err != nil {
		k.stop()
		return nil, report{}, err
	}
	return k, got, nil
}

// stop removes the server and returns when it is gone.
func (k *keeper) stop() {
	_ = k.life.Close()
	_ = k.process.Wait()
}

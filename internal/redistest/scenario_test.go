package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// envScenario makes a child process of this test binary run one scenario, in
// an environment that its parent has chosen.
const envScenario = "FLEETPACE_REDISTEST_SCENARIO"

var scenarios = map[string]func(*testing.T){
	"":       func(t *testing.T) { use(t, New(t)) },
	"docker": func(t *testing.T) { use(t, Docker(t)) },
	"local":  func(t *testing.T) { use(t, Local(t)) },
	"panic": func(t *testing.T) {
		use(t, New(t))
		use(t, Local(t, "--appendonly", "yes"))
		panic("as a test may")
	},
	"hang": func(t *testing.T) {
		use(t, New(t))
		use(t, Local(t, "--appendonly", "yes"))
		select {} // until the parent kills this process
	},
}

// use proves that the server works and tells the parent about it.
func use(t *testing.T, server *Server) {
	require.NoError(t, server.Client(t).Ping(t.Context()).Err())
	fmt.Printf("using %s %s %s\n", server.Kind, server.URL(), server.id)
}

func TestScenario(t *testing.T) {
	scenarios[os.Getenv(envScenario)](t)
}

// scenario is the command that runs a scenario in a child process.
func scenario(ctx context.Context, name string, settings ...string) *exec.Cmd {
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestScenario$", "-test.v", "-test.count=1")
	child.Env = environment(append(settings, envScenario+"="+name)...)
	return child
}

// What a machine lacks.
const (
	noDocker = "DOCKER_HOST=unix:///nowhere/docker.sock"
	noImage  = envImage + "=registry.invalid/fleetpace/none:1"
	noLocal  = "PATH="
)

func TestChoice(t *testing.T) {
	const (
		pass = "--- PASS: TestScenario"
		skip = "--- SKIP: TestScenario"
		fail = "--- FAIL: TestScenario"
	)
	tests := map[string]struct {
		scenario    string
		settings    []string
		needsDocker bool
		needsLocal  bool
		result      string
		says        []string
	}{
		"nothing": {
			settings: []string{noDocker, noLocal},
			result:   skip,
			says:     []string{"DOCKER_HOST", "neither redis-server nor valkey-server is in PATH", "apt-get install redis-server"},
		},
		"nothing, Redis required": {
			settings: []string{noDocker, noLocal, envRequire + "=redis"},
			result:   fail,
			says:     []string{"DOCKER_HOST", "neither redis-server nor valkey-server is in PATH", "because FLEETPACE_REQUIRE asks for it"},
		},
		"nothing, Docker asked for": {
			scenario: "docker",
			settings: []string{noDocker, noLocal, envRequire + "=redis"},
			result:   skip,
			says:     []string{"DOCKER_HOST"},
		},
		"nothing, Docker asked for and required": {
			scenario: "docker",
			settings: []string{noDocker, noLocal, envRequire + "=docker"},
			result:   fail,
			says:     []string{"no Docker engine answers"},
		},
		"nothing, local asked for": {
			scenario: "local",
			settings: []string{noLocal, envRequire + "=docker"},
			result:   skip,
			says:     []string{"neither redis-server"},
		},
		"nothing, local asked for and required": {
			scenario: "local",
			settings: []string{noLocal, envRequire + "=redis"},
			result:   fail,
			says:     []string{"neither redis-server"},
		},
		"no engine": {
			settings:   []string{noDocker, envRequire + "=redis"},
			needsLocal: true,
			result:     pass,
			says:       []string{"no Docker engine answers", "using local"},
		},
		"no engine, Docker required": {
			settings:   []string{noDocker, envRequire + "=redis,docker"},
			needsLocal: true,
			result:     fail,
			says:       []string{"no Docker engine answers"},
		},
		"no image": {
			settings:    []string{noImage, envRequire + "=redis"},
			needsDocker: true,
			needsLocal:  true,
			result:      pass,
			says:        []string{"has no image registry.invalid/fleetpace/none:1", "using local"},
		},
		"no image, Docker required": {
			settings:    []string{noImage, envRequire + "=docker"},
			needsDocker: true,
			result:      fail,
			says:        []string{"has no image registry.invalid/fleetpace/none:1", envImage},
		},
		"all there": {
			settings:    []string{envImage + "=" + imageInUse(), noLocal},
			needsDocker: true,
			result:      pass,
			says:        []string{"using docker"},
		},
		"only local": {
			settings:   []string{envKind + "=local", envRequire + "=redis,docker"},
			needsLocal: true,
			result:     pass,
			says:       []string{"using local"},
		},
		"only Docker, not there": {
			settings:   []string{envKind + "=docker", noDocker},
			needsLocal: true,
			result:     skip,
			says:       []string{"no Docker engine answers"},
		},
		"address that nothing serves": {
			settings: []string{envURL + "=redis://127.0.0.1:1"},
			result:   fail,
			says:     []string{"no Redis answers at FLEETPACE_REDIS_URL", "127.0.0.1:1", "unset"},
		},
		"address that is none": {
			settings: []string{envURL + "=127.0.0.1:6379"},
			result:   fail,
			says:     []string{"FLEETPACE_REDIS_URL"},
		},
		"a word that is none": {
			settings: []string{envRequire + "=reddis"},
			result:   fail,
			says:     []string{`"reddis" is not known`},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.needsDocker {
				Docker(t)
			}
			if test.needsLocal {
				Local(t)
			}
			output, err := scenario(t.Context(), test.scenario, test.settings...).CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			assert.Equal(t, test.result == fail, err != nil, "exit status: %v", err)
			for _, part := range append(test.says, test.result) {
				assert.Contains(t, string(output), part)
			}
		})
	}
}

func TestChoiceOfAddress(t *testing.T) {
	server := Local(t)
	output, err := scenario(t.Context(), "", envURL+"="+server.URL()+"/3", envRequire+"=docker").CombinedOutput()
	require.NoError(t, err, "%s", output)
	assert.Contains(t, string(output), "using url "+server.URL()+"/3")
	assert.NoError(t, server.Client(t).Ping(t.Context()).Err(), "a server that was given is left alone")
}

func imageInUse() string {
	if image := os.Getenv(envImage); image != "" {
		return image
	}
	return defaultImage
}

// patience bounds a wait for something that takes milliseconds when all is
// well, on a machine that is busy.
const patience = 30 * time.Second

package redistest

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The servers of this package must not show in the goroutine checks of the
// packages that use it; so it checks itself.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestServersAnswer(t *testing.T) {
	for name, get := range map[string]func(testing.TB) *Server{
		"New":    New,
		"Docker": Docker,
		"Local":  func(t testing.TB) *Server { return Local(t) },
		"Mini":   Mini,
	} {
		t.Run(name, func(t *testing.T) {
			server := get(t)
			key := Prefix(t)
			// Two clients, so that what is read back came from the server.
			require.NoError(t, server.Client(t).Set(t.Context(), key, "value", time.Minute).Err())
			value, err := server.Client(t).Get(t.Context(), key).Result()
			require.NoError(t, err)
			assert.Equal(t, "value", value)
			assert.Equal(t, name != "Mini", server.Real())
			assert.Contains(t, server.URL(), server.Addr())
		})
	}
}

func TestServersAreShared(t *testing.T) {
	assert.Same(t, New(t), New(t))
	assert.Same(t, Local(t), Local(t))
	assert.NotEqual(t, Mini(t).Addr(), Mini(t).Addr(), "a miniredis belongs to one test")
}

func TestLocalWithArgumentsBelongsToItsTest(t *testing.T) {
	common := Local(t)
	var own *Server
	t.Run("inner", func(t *testing.T) {
		own = Local(t, "--appendonly", "yes")
		assert.NotEqual(t, common.Addr(), own.Addr())
		for server, want := range map[*Server]string{own: "yes", common: "no"} {
			config, err := server.Client(t).ConfigGet(t.Context(), "appendonly").Result()
			require.NoError(t, err)
			assert.Equal(t, want, config["appendonly"])
		}
	})
	assertGone(t, own)
	assert.NoError(t, common.Client(t).Ping(t.Context()).Err())
}

func TestLocalSaysWhyItDoesNotStart(t *testing.T) {
	Local(t) // or there is nothing to refuse the option
	_, err := startServer(order{Kind: KindLocal, Args: []string{"--no-such-option", "1"}})
	require.ErrorContains(t, err, "no-such-option")
}

func TestLocalLeavesNoDirectory(t *testing.T) {
	var dir string
	t.Run("inner", func(t *testing.T) {
		config, err := Local(t, "--appendonly", "yes").Client(t).ConfigGet(t.Context(), "dir").Result()
		require.NoError(t, err)
		dir = config["dir"]
		require.DirExists(t, dir)
	})
	assert.NoDirExists(t, dir)
}

func TestEachRunsOnBoth(t *testing.T) {
	var kinds []Kind
	Each(t, func(t *testing.T, server *Server) {
		require.NoError(t, server.Client(t).Ping(t.Context()).Err())
		kinds = append(kinds, server.Kind)
	})
	require.NotEmpty(t, kinds)
	assert.Equal(t, KindMini, kinds[0])
	if len(kinds) > 1 { // the second is skipped where there is no Redis
		assert.NotEqual(t, KindMini, kinds[1])
	}
}

func TestPrefix(t *testing.T) {
	seen := make(map[string]bool)
	t.Run("a name with {braces}, spaces: ünd "+strings.Repeat("much more ", 20), func(t *testing.T) {
		for range 1000 {
			prefix := Prefix(t)
			require.False(t, seen[prefix], "%s came twice", prefix)
			seen[prefix] = true
			require.Regexp(t, `^TestPrefix-[A-Za-z0-9_-]{1,90}$`, prefix)
		}
	})
}

func TestSettings(t *testing.T) {
	tests := map[string]struct {
		env  map[string]string
		want settings
		err  string // part of the error; "" for none
	}{
		"nothing set":       {nil, settings{image: defaultImage}, ""},
		"image":             {map[string]string{envImage: "valkey/valkey:8"}, settings{image: "valkey/valkey:8"}, ""},
		"address":           {map[string]string{envURL: "redis://h:1"}, settings{image: defaultImage, url: "redis://h:1"}, ""},
		"only docker":       {map[string]string{envKind: "docker"}, settings{image: defaultImage, only: KindDocker}, ""},
		"only local":        {map[string]string{envKind: "local"}, settings{image: defaultImage, only: KindLocal}, ""},
		"only something":    {map[string]string{envKind: "podman"}, settings{}, `FLEETPACE_REDIS="podman" is not known`},
		"only miniredis":    {map[string]string{envKind: "miniredis"}, settings{}, `FLEETPACE_REDIS="miniredis" is not known`},
		"only url, without": {map[string]string{envKind: "url"}, settings{}, "needs FLEETPACE_REDIS_URL"},
		"require redis":     {map[string]string{envRequire: "redis"}, settings{image: defaultImage, requireRedis: true}, ""},
		"require both":      {map[string]string{envRequire: " redis, docker ,"}, settings{image: defaultImage, requireRedis: true, requireDocker: true}, ""},
		"require something": {map[string]string{envRequire: "redis,dokcer"}, settings{}, `"dokcer" is not known`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{envURL, envKind, envImage, envRequire} {
				t.Setenv(variable, test.env[variable])
			}
			got, err := readSettings()
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}

// assertGone checks that nothing listens at the server's address any more.
func assertGone(t *testing.T, server *Server) {
	t.Helper()
	connection, err := net.DialTimeout("tcp", server.Addr(), time.Second)
	if err == nil {
		_ = connection.Close()
		t.Errorf("something still listens at %s, where the %s server was", server.Addr(), server.Kind)
	}
}

// environment is that of this process without what decides about the Redis,
// and with the given settings.
func environment(settings ...string) []string {
	var kept []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "FLEETPACE_") {
			kept = append(kept, entry)
		}
	}
	return append(kept, settings...)
}

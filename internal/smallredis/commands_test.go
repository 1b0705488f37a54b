package smallredis

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// go-redis writes options in lower case, and scripts write them in upper case.
func TestOptionsInAnyLetters(t *testing.T) {
	r := New()
	defer r.Close()
	require.EqualValues(t, 1, r.Do([]string{"ZADD", "k", "5", "a"}))
	require.Equal(t, []any{"a", "5"}, r.Do([]string{"ZRANGE", "k", "0", "-1", "WITHSCORES"}))
	require.Equal(t, []any{"a", "5"}, r.Do([]string{"ZRANGE", "k", "0", "-1", "withscores"}))
}

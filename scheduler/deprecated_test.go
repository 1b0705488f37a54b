package scheduler

import (
	"context"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEarlierNames uses Config.Turn, as v0.2 named Config.Need.
func TestEarlierNames(t *testing.T) {
	config := Config{Turn: func(context.Context, *asynq.Task) (Turn, error) { return Turn{Cost: 3}, nil }}.withDefaults()
	need, err := config.Need(t.Context(), nil)
	require.NoError(t, err)
	assert.Equal(t, Need{Cost: 3}, need)
}

package example

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLLMCosts proves that no call costs more than its estimate, and most from 40 to 80 % of it.
func TestLLMCosts(t *testing.T) {
	estimated, used := 0, 0
	for _, r := range SamplePrompts(1000) {
		var p Prompt
		require.NoError(t, json.Unmarshal(r.Body, &p))
		u := p.Usage(r.ID)
		assert.LessOrEqual(t, u.TotalTokens, p.Estimate())
		assert.InDelta(t, 0.6, float64(u.TotalTokens)/float64(p.Estimate()), 0.21)
		assert.Equal(t, u, p.Usage(r.ID))
		estimated, used = estimated+p.Estimate(), used+u.TotalTokens
	}
	assert.InDelta(t, 0.6, float64(used)/float64(estimated), 0.03)
	small := Prompt{Prompt: strings.Repeat("long ", 400), MaxTokens: 1}
	assert.LessOrEqual(t, small.Usage("x").TotalTokens, small.Estimate())
}

package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	longest  = 40    // words of a sentence
	usual    = 18    // words of a sentence, on average
	oneSheet = 1_800 // words of the README
)

var (
	tableRule = regexp.MustCompile(`(?m)^\|[-| :]+\|$`)
	image     = regexp.MustCompile(`!\[([^\]]*)\]\([^)]*\)`)
	linkText  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	html      = regexp.MustCompile(`</?[a-z][^>]*>`)
	codeSpan  = regexp.MustCompile("``?[^`]+``?")
	item      = regexp.MustCompile(`^\s*([-*]|\d+\.) `)
	ends      = regexp.MustCompile(`[.!?]["')*]*\s+`)
	word      = regexp.MustCompile(`[\pL\pN][\pL\pN'’.,/%×-]*`)
)

// banned are words that say nothing, praise, or stand for another one of the glossary.
var banned = regexp.MustCompile(`(?i)\b(simply|easily|obviously|basically|actually|of course|please|note that|in order to|` +
	`leverages?|utili[sz]es?|robust|seamless(ly)?|blazing(ly)?|powerful|very|really|quite|cutting[- ]edge|` +
	`as well as|prior to|due to the fact|at this point in time|a number of|e\.g\.|i\.e\.|etc\.|via|tickets?)\b`)

// Sentences are short: no one reads them twice.
func TestSentences(t *testing.T) {
	words, sentences := 0, 0
	for _, p := range told(t) {
		inPage := 0
		for _, s := range sentencesOf(p.text) {
			n := len(word.FindAllString(s, -1))
			if n < 3 {
				continue // a cell or a name
			}
			assert.LessOrEqual(t, n, longest, "%s: words of %q", p.name, s)
			words, sentences, inPage = words+n, sentences+1, inPage+n
		}
		t.Logf("%s: %d words", p.name, inPage)
	}
	require.NotZero(t, sentences)
	mean := float64(words) / float64(sentences)
	t.Logf("%d sentences of %.1f words on average", sentences, mean)
	require.LessOrEqual(t, mean, float64(usual))
}

// The README is a page that a stranger reads to its end.
func TestREADMEIsShort(t *testing.T) {
	text := fence.ReplaceAllString(read(t, "README.md")[0].text, "")
	require.LessOrEqual(t, len(strings.Fields(text)), oneSheet)
}

func TestBannedWords(t *testing.T) {
	for _, p := range told(t) {
		for line := range strings.Lines(fence.ReplaceAllString(p.text, "")) {
			assert.Empty(t, banned.FindAllString(codeSpan.ReplaceAllString(line, ""), -1), "%s: %s", p.name, line)
		}
	}
}

// sentencesOf splits the prose of a page: without code, tables by cells, lists by items.
func sentencesOf(text string) (sentences []string) {
	text = tableRule.ReplaceAllString(fence.ReplaceAllString(text, "\n"), "")
	text = linkText.ReplaceAllString(image.ReplaceAllString(text, "$1"), "$1")
	text = html.ReplaceAllString(text, "")
	text = codeSpan.ReplaceAllString(text, "code")
	var paragraph strings.Builder
	end := func() {
		sentences = append(sentences, ends.Split(strings.TrimSpace(paragraph.String())+" ", -1)...)
		paragraph.Reset()
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.TrimSpace(line) == "", strings.HasPrefix(line, "#"):
			end()
		case strings.HasPrefix(line, "|"):
			end()
			for cell := range strings.SplitSeq(line, "|") {
				sentences = append(sentences, ends.Split(strings.TrimSpace(cell)+" ", -1)...)
			}
		default:
			if item.MatchString(line) {
				end()
			}
			paragraph.WriteString(" " + line)
		}
	}
	end()
	return sentences
}

package docs

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	longest  = 30    // words of a sentence
	oneSheet = 1_800 // words of the README
)

var (
	tableRule = regexp.MustCompile(`(?m)^\|[-| :]+\|$`)
	image     = regexp.MustCompile(`!\[([^\]]*)\]\([^)]*\)`)
	linkText  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	html      = regexp.MustCompile(`</?[a-z][^>]*>`)
	codeSpan  = regexp.MustCompile("``?[^`]+``?")
	item      = regexp.MustCompile(`^\s*([-*]|\d+\.) `)
	ends      = regexp.MustCompile(`([.!?]["')*]*)\s+`)
	emphasis  = regexp.MustCompile(`\*\*?([^*\n]+)\*\*?`)
	word      = regexp.MustCompile(`[\pL\pN][\pL\pN'’.,/%×-]*`)
)

// banned are words that say nothing or praise, and words for which the glossary has another one.
var banned = regexp.MustCompile(`(?i)\b(simply|easily|obviously|basically|actually|of course|please|note that|in order to|` +
	`leverages?|utili[sz]es?|robust|seamless(ly)?|blazing(ly)?|powerful|very|really|quite|cutting[- ]edge|` +
	`as well as|prior to|due to the fact|at this point in time|a number of|e\.g\.|i\.e\.|etc\.|via|tickets?|` +
	`heeds?|in (its|their) stead|for want of|whoever|come again|comes again|overslept)\b`)

// riddles are patterns of sentences that a reader has to read twice. Each has a sentence that it
// finds, and the same sentence in plain words.
var riddles = []struct {
	pattern        *regexp.Regexp
	riddle, better string
}{
	{
		regexp.MustCompile(`\b[Oo]f (one|those|what|that) (that|which|with|of)\b`),
		"The cost of one that waits is kept.", "A waiting call keeps its cost.",
	},
	{
		regexp.MustCompile(`^(Of|Whose|Those)\b|^(Who|Whoever|What)\b[^?]*$|^That (is|was|has|had|does|did|will|would|may|can|could|must|should|` +
			`takes|needs|makes|says|means|goes|comes|uses|costs|keeps|lets|gives|holds|happens|counts|ends|begins|spends|depends|way)\b`),
		"Who comes late asks again.", "A late call asks again.",
	},
	{
		regexp.MustCompile(`^One (that|which|whose|who|with|of which)\b`),
		"One that comes late fails.", "A late call fails.",
	},
	{
		regexp.MustCompile(`(?i)\bthose (that|which|who|whose)\b`),
		"It cancels those that wait.", "It cancels waiting calls.",
	},
	{
		regexp.MustCompile(`\b(and|or|but|of|for|to|by|than|as|so|where|when|if|while) who\b`),
		"Slots are kept for who waits.", "Slots are kept for waiting calls.",
	},
	{
		regexp.MustCompile(`\b(is|are|was|were) of (a|an|the|one|that|those|its|their|this)\b`),
		"The error is of a call that was cancelled.", "A cancelled call gets the error.",
	},
	{
		regexp.MustCompile(`^Else\b|\bso (many|much) (of|at)\b|\bis none\b|\bare none\b`),
		"Else so much of the limit is lost.", "Otherwise those permits are lost.",
	},
	{
		regexp.MustCompile(`\b(is|are|was|were|be) told\b|\bnobody tells\b|\b(hears?|heard) of\b`),
		"Each process is told of the pause.", "Redis notifies each process of the pause.",
	},
	{
		regexp.MustCompile(`\bRedis (is|was) (still )?away\b|\b[Tt]urns? (that )?laps`),
		"Turns lapse while Redis is away.", "Turns expire while Redis is unreachable.",
	},
}

// prose is everything that users read, and the comments of packages that show how the limiter is used
// or tested.
func prose(t *testing.T) []page {
	t.Helper()
	pages := append(told(t), read(t, "*/README.md", "*/*/README.md", "CONTRIBUTING.md", "deploy/runbooks/*.md")...)
	for _, dir := range packages {
		for _, p := range read(t, dir+"/*.go") {
			if !strings.HasSuffix(p.name, "_test.go") || dir == "integration" {
				pages = append(pages, page{p.name, comments(t, p)})
			}
		}
	}
	for _, p := range read(t, "lua/*.lua") {
		pages = append(pages, page{p.name, luaComments(p)})
	}
	newest, _, _ := strings.Cut(read(t, "CHANGELOG.md")[0].text, "\n## v0.1")
	return append(pages, page{"CHANGELOG.md", newest})
}

// packages are those whose comments are read: without their tests, but in integration.
var packages = []string{
	"adaptive", "bench", "cmd/fleetpace", "embedded", "limits", "llm", "llm/fleetaws", "lua", "lua/explore", "monitor", "remote", "reserve",
	"reservetest", "reservetest/emulator", "riverpace", "scheduler", "serve", "transport", "transport/bodies", "transport/headers", "worker",
	"examples/batch", "examples/crawler", "integration",
	"internal/asynqtest", "internal/bubble", "internal/calendar", "internal/chart", "internal/delay", "internal/engine", "internal/example",
	"internal/example/web", "internal/fault", "internal/fleet", "internal/interpreter", "internal/ledger", "internal/meter", "internal/observe", "internal/provider",
	"internal/queuemodel", "internal/quick", "internal/redistest", "internal/scrape", "internal/smallredis", "internal/turn", "internal/wire", "internal/world",
}

// comments returns the comments of a Go file as a page: one paragraph for each, without code.
func comments(t *testing.T, p page) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), p.name, p.text, parser.ParseComments)
	require.NoError(t, err)
	var text strings.Builder
	for _, group := range file.Comments {
		for line := range strings.Lines(group.Text()) {
			if strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "    ") {
				line = "\n" // code
			}
			text.WriteString(goLink.ReplaceAllString(quoted.ReplaceAllString(line, "code"), "code"))
		}
		text.WriteString("\n")
	}
	return text.String()
}

// luaComments returns the comments of a Lua script as a page. Its comments begin with two hyphens.
func luaComments(p page) string {
	var text strings.Builder
	for line := range strings.Lines(p.text) {
		_, comment, found := strings.Cut(line, "--")
		if !found {
			text.WriteString("\n")
			continue
		}
		if before, _, _ := strings.Cut(line, "--"); strings.TrimSpace(before) != "" {
			text.WriteString("\n") // a comment beside code stands by itself
		}
		comment = strings.TrimPrefix(comment, " ")
		if strings.HasPrefix(comment, "  ") {
			comment = "\n" // code
		}
		text.WriteString(goLink.ReplaceAllString(quoted.ReplaceAllString(comment, "code"), "code"))
	}
	return text.String()
}

var (
	goLink = regexp.MustCompile(`\[\*?[A-Za-z.]+\]`)
	quoted = regexp.MustCompile(`"[^"\n]*"`)
)

// Sentences are short: nobody reads them twice.
func TestSentences(t *testing.T) {
	sentences := 0
	for _, p := range prose(t) {
		for _, s := range sentencesOf(p.text) {
			assert.LessOrEqual(t, len(word.FindAllString(s, -1)), longest, "%s: words of %q", p.name, s)
			sentences++
		}
	}
	require.NotZero(t, sentences)
}

// Sentences name who does what: a reader does not have to guess it.
func TestNoRiddles(t *testing.T) {
	for _, p := range prose(t) {
		for _, s := range sentencesOf(p.text) {
			for _, r := range riddles {
				assert.Empty(t, r.pattern.FindString(s), "%s: %q\nis a riddle such as %q; write it as in %q", p.name, s, r.riddle, r.better)
			}
		}
	}
}

func TestRiddlesAreFound(t *testing.T) {
	for _, r := range riddles {
		assert.Regexp(t, r.pattern, r.riddle)
		for _, other := range riddles {
			assert.NotRegexp(t, other.pattern, r.better)
		}
	}
}

// A comment that names a function in another file names one that is there.
func TestReferencesExist(t *testing.T) {
	reference := regexp.MustCompile(`\b(?:see|and) (?:\w+\.)?(\w+) in (\w+\.(?:lua|go))\b`)
	texts, found := map[string]string{}, 0
	pages := read(t, "lua/*.lua", "internal/engine/*.go")
	for _, p := range pages {
		texts[filepath.Base(p.name)] = p.text
	}
	for _, p := range pages {
		for _, r := range reference.FindAllStringSubmatch(p.text, -1) {
			found++
			assert.True(t, regexp.MustCompile(`\bfunc(tion)? (\([^)]*\) |\w+\.)?`+r[1]+`\(`).MatchString(texts[r[2]]), "%s: %s", p.name, r[0])
		}
	}
	require.GreaterOrEqual(t, found, 5)
}

// The README is a page that a stranger reads to its end.
func TestREADMEIsShort(t *testing.T) {
	text := fence.ReplaceAllString(read(t, "README.md")[0].text, "")
	require.LessOrEqual(t, len(strings.Fields(text)), oneSheet)
}

func TestBannedWords(t *testing.T) {
	for _, p := range prose(t) {
		for line := range strings.Lines(fence.ReplaceAllString(p.text, "")) {
			assert.Empty(t, banned.FindAllString(codeSpan.ReplaceAllString(line, ""), -1), "%s: %s", p.name, line)
		}
	}
}

// split returns the sentences of a paragraph.
func split(paragraph string) []string {
	return strings.Split(ends.ReplaceAllString(strings.TrimSpace(paragraph), "$1\x00"), "\x00")
}

// sentencesOf splits the prose of a page: without code, tables by cells, lists by items.
func sentencesOf(text string) (sentences []string) {
	text = tableRule.ReplaceAllString(fence.ReplaceAllString(text, "\n"), "")
	text = linkText.ReplaceAllString(image.ReplaceAllString(text, "$1"), "$1")
	text = html.ReplaceAllString(text, "")
	text = codeSpan.ReplaceAllString(text, "code")
	text = emphasis.ReplaceAllString(text, "$1")
	var paragraph strings.Builder
	end := func() {
		sentences = append(sentences, split(paragraph.String())...)
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
				sentences = append(sentences, split(cell)...)
			}
		default:
			if item.MatchString(line) {
				end()
				line = item.ReplaceAllString(line, "")
			}
			paragraph.WriteString(" " + line)
		}
	}
	end()
	return sentences
}

package web

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func extractFrom(t *testing.T, html, contentType string) (string, []string) {
	t.Helper()
	page, err := url.Parse("http://example.com/dir/page.html")
	require.NoError(t, err)
	title, links, err := Extract([]byte(html), contentType, page)
	require.NoError(t, err)
	var addresses []string
	for _, l := range links {
		addresses = append(addresses, l.String())
	}
	return title, addresses
}

func TestExtract(t *testing.T) {
	title, links := extractFrom(t, `<!doctype html><title> A
		title &amp; more </title><title>second</title>
		<p><a href="one.html">1</a> <A HREF='/two?q=1&amp;r=2#frag'>2 <a href=one.html#again>again
		<a>no href</a> <a href="mailto:x@example.com">mail</a> <a href="javascript:void(0)">js</a>
		<map><area href="http://other.org/map"></map> <a href="http://[broken">broken</a>
		<link href="style.css"><img src="picture.png">
		<svg><title>not the title</title></svg> <table><a href="three.html">in a broken table`, "text/html")
	assert.Equal(t, "A title & more", title)
	assert.ElementsMatch(t, []string{
		"http://example.com/dir/one.html",
		"http://example.com/two?q=1&r=2",
		"http://other.org/map",
		"http://example.com/dir/three.html",
	}, links)
}

func TestExtractHonoursBase(t *testing.T) {
	_, links := extractFrom(t, `<base href="/elsewhere/"><a href="x.html">x</a>`, "text/html")
	assert.Equal(t, []string{"http://example.com/elsewhere/x.html"}, links)
}

func TestExtractReadsOtherCharsets(t *testing.T) {
	title, _ := extractFrom(t, "<title>caf\xe9</title>", "text/html; charset=iso-8859-1")
	assert.Equal(t, "café", title)
	title, _ = extractFrom(t, "<meta charset=iso-8859-1><title>caf\xe9</title>", "text/html")
	assert.Equal(t, "café", title)
	title, links := extractFrom(t, "<title>t</title><a href=x>", "text/html; charset=no-such-thing")
	assert.Equal(t, "t", title)
	assert.Len(t, links, 1)
}

func TestExtractSurvivesWhatIsNotHTML(t *testing.T) {
	for _, body := range []string{"", "\x00\x01\x02", "<", "<a href=", "{\"json\": true}"} {
		_, links := extractFrom(t, body, "text/html")
		assert.Empty(t, links)
	}
}

func TestExtractRefusesBottomlessNesting(t *testing.T) {
	title, links, err := Extract([]byte("<title>t</title><a href=x>"+strings.Repeat("<div>", 2000)), "text/html", mustURL(t, "http://h/"))
	require.Error(t, err)
	assert.Empty(t, title)
	assert.Empty(t, links)
}

func TestExtractIsBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("<title>" + strings.Repeat("é", 10*maxTitleSize) + "</title>")
	for i := range 2 * maxLinks {
		fmt.Fprintf(&b, "<a href=%d>", i)
	}
	title, links := extractFrom(t, b.String(), "text/html; charset=utf-8")
	assert.Len(t, []rune(title), maxTitleSize)
	assert.Len(t, links, maxLinks)
}

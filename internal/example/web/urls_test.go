package web

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNormalise(t *testing.T) {
	base, err := url.Parse("https://Example.com/a/b.html?x=1")
	require.NoError(t, err)
	for ref, want := range map[string]string{
		"":                             "https://example.com/a/b.html?x=1",
		"c.html":                       "https://example.com/a/c.html",
		"../d/./e/../f":                "https://example.com/d/f",
		"/":                            "https://example.com/",
		"?y=2":                         "https://example.com/a/b.html?y=2",
		"#top":                         "https://example.com/a/b.html?x=1",
		"c.html#part":                  "https://example.com/a/c.html",
		"c.html?":                      "https://example.com/a/c.html",
		"?b=2&a=1":                     "https://example.com/a/b.html?b=2&a=1",
		"//other.org":                  "https://other.org/",
		"HTTP://EXAMPLE.com:80/X":      "http://example.com/X",
		"https://example.com:443":      "https://example.com/",
		"https://example.com:8443":     "https://example.com:8443/",
		"https://example.com.:443/":    "https://example.com/",
		"http://user:pw@example.com/":  "http://example.com/",
		"http://bücher.example/ä":      "http://xn--bcher-kva.example/%C3%A4",
		"http://my_host.example/":      "http://my_host.example/",
		"http://[2001:DB8::1]:80/":     "http://[2001:db8::1]/",
		"  \n/with/white/space \t":     "https://example.com/with/white/space",
		"/a%2Fb":                       "https://example.com/a%2Fb",
		"http://example.com/a b?q=c d": "http://example.com/a%20b?q=c d",
	} {
		u, err := Normalise(base, ref)
		if assert.NoError(t, err, ref) {
			assert.Equal(t, want, u.String(), ref)
			again, err := Normalise(nil, u.String())
			if assert.NoError(t, err, ref) {
				assert.Equal(t, u.String(), again.String(), "normalising twice changes %q", ref)
			}
		}
	}
	for _, ref := range []string{
		"mailto:a@example.com", "javascript:void(0)", "data:text/html,x", "ftp://example.com/", "tel:+44",
		"http://", "http:///path", "https:opaque", "http://exa mple.com/", "http://[::1", "%zz", "http://a%20b/",
		"/" + strings.Repeat("x", maxURLLength),
	} {
		u, err := Normalise(base, ref)
		assert.Error(t, err, "%.50q became %v", ref, u)
	}
}

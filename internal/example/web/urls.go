package web

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/idna"
)

// maxURLLength is in bytes; longer addresses are nearly always traps.
const maxURLLength = 2000

var errNotCrawlable = errors.New("not an http or https address")

// Normalise returns the one form in which the frontier knows a URL, for a reference on the page
// base (nil: no page). The form is absolute, http or https, with a lower-case ASCII host. It has no
// default port, no fragment, no user and no dot segments. An empty path becomes "/". The query is
// unchanged, because its order may matter to the site.
func Normalise(base *url.URL, ref string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(ref))
	if err != nil {
		return nil, err
	}
	if base == nil {
		base = &url.URL{}
	}
	u = base.ResolveReference(u)
	if u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" || u.Hostname() == "" {
		return nil, errNotCrawlable
	}
	if u.Host, err = NormaliseHost(u.Scheme, u.Host); err != nil {
		return nil, err
	}
	u.User, u.Fragment, u.RawFragment, u.ForceQuery = nil, "", "", false
	if u.Path == "" {
		u.Path = "/"
	}
	if len(u.String()) > maxURLLength {
		return nil, fmt.Errorf("address of %d bytes: at most %d are followed", len(u.String()), maxURLLength)
	}
	return u, nil
}

// NormaliseHost changes "Example.COM:443" to "example.com" for https.
func NormaliseHost(scheme, host string) (string, error) {
	u := &url.URL{Host: host}
	name, port := u.Hostname(), u.Port()
	if strings.Contains(name, ":") { // an IPv6 address
		name = "[" + strings.ToLower(name) + "]"
	} else {
		ascii, err := idna.Lookup.ToASCII(strings.TrimSuffix(name, "."))
		if err != nil || ascii == "" {
			// Some names exist although the standard forbids them, for example
			// with an underscore.
			ascii = strings.ToLower(name)
		}
		name = ascii
	}
	if strings.ContainsAny(name, " /?#@%") {
		return "", fmt.Errorf("host name %q: not a host", host)
	}
	if port == "" || scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		return name, nil
	}
	return name + ":" + port, nil
}

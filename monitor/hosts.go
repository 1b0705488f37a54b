package monitor

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// anyHost in Config.Hosts lets requests name any host.
const anyHost = "*"

// hostsOf returns the names of Config.Hosts, in the form in which requests are compared with them.
// The error names the entry that is not a host name.
func hostsOf(names []string) (map[string]bool, error) {
	hosts := map[string]bool{"localhost": true}
	for i, name := range names {
		if name == "" || name != anyHost && strings.ContainsAny(name, "/:*@ ") {
			return nil, fmt.Errorf("monitor: %w Config.Hosts[%d]: must be a name without a scheme and a port, such as limits.example.com, or %q for any, got %q", reserve.ErrInvalid, i, anyHost, name)
		}
		hosts[canonical(name)] = true
	}
	return hosts, nil
}

func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// admits reports whether a request may name a host. IP addresses are always admitted: DNS rebinding
// needs a name.
func admits(hosts map[string]bool, host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	if _, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")); err == nil {
		return true
	}
	return hosts[anyHost] || hosts[canonical(name)]
}

// ownHosts refuses requests that name a host that is not one of the page's. Otherwise a web page of
// another site, whose name resolves to this server's address, could use a visitor's browser to read
// and change the limits (https://en.wikipedia.org/wiki/DNS_rebinding).
func ownHosts(hosts map[string]bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !admits(hosts, r.Host) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second)) // its body may never come
			http.Error(w, fmt.Sprintf("the Host of this request is %q: call the page by localhost or an address, or add the name to monitor.Config.Hosts", r.Host), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

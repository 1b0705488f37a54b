package main

import (
	"fmt"
	"net"
	"net/http"
	"time"
)

// localOnly refuses requests that name a host other than this machine. A server that only this
// machine can reach has no authentication. But a web page of another site whose name resolves to
// 127.0.0.1 could make a browser on this machine read and change everything
// (https://en.wikipedia.org/wiki/DNS_rebinding).
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := r.Host; !loopback(host) && !loopback(net.JoinHostPort(host, "80")) && host != "[::1]" {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second)) // its body may never come
			http.Error(w, fmt.Sprintf("the Host of this request is %q: call the server by localhost or 127.0.0.1", host), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

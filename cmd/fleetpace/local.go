package main

import (
	"fmt"
	"net"
	"net/http"
	"time"
)

// localOnly refuses requests that name another host than this machine. A server that only this
// machine reaches asks nobody who they are, but a browser here may be led to it by any name: a
// web page elsewhere whose name means 127.0.0.1 could read and change everything
// (https://en.wikipedia.org/wiki/DNS_rebinding).
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := r.Host; !loopback(host) && !loopback(net.JoinHostPort(host, "80")) && host != "[::1]" {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second)) // of a body that may never come
			http.Error(w, fmt.Sprintf("the Host of this request is %q: call the server by localhost or 127.0.0.1", host), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

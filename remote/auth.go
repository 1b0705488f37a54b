package remote

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// admit requires a bearer token. The time of the comparison does not depend on how much of the
// token is right.
func admit(token string, next http.Handler) http.Handler {
	if token == "" {
		return next
	}
	wanted := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		sum := sha256.Sum256([]byte(strings.TrimSpace(given)))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(sum[:], wanted[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="fleetpace"`)
			answer(w, problem{Status: http.StatusUnauthorized, Detail: "Send the server's token: Authorization: Bearer …"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

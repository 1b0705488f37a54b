package reservetest

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"net/url"
)

// Client returns a client whose requests go to the API, whatever their address, without
// connections. It is safe for concurrent use.
func (a *API) Client() *http.Client { return &http.Client{Transport: a.RoundTripper()} }

// RoundTripper returns the transport of [API.Client], for use below another one. The response comes
// when the handler returns. If a request's context ends before that, the request fails and the
// handler continues.
func (a *API) RoundTripper() http.RoundTripper { return direct{a} }

type direct struct{ api *API }

// RoundTrip passes a client's request to the API.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	in, err := arrived(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	w, done := httptest.NewRecorder(), make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = in.Body.Close() }()
		d.api.ServeHTTP(w, in)
	}()
	select {
	case <-done:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	answer := w.Result()
	answer.Request = r
	return answer, nil
}

// arrived returns a request as its server sees it. It fails if the context has ended.
func arrived(r *http.Request) (*http.Request, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	in := r.Clone(r.Context())
	in.Host = cmp.Or(r.Host, r.URL.Host)
	in.RequestURI = r.URL.RequestURI()
	in.RemoteAddr = "192.0.2.1:1234" // an address for documentation (RFC 5737)
	if in.Body == nil {
		in.Body = http.NoBody
	}
	var err error
	in.URL, err = url.ParseRequestURI(in.RequestURI)
	return in, err
}

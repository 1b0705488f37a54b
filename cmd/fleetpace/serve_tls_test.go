package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// Over TLS who has a certificate and the token is let in, and nobody else.
func TestServeOverTLS(t *testing.T) {
	server, dir := redistest.New(t), t.TempDir()
	pair, pool := certificateOf(t, dir)
	t.Setenv(tokenVariable, "secret")
	s := serveTurnsOf(t, server, redistest.Prefix(t), "limits:\n  - {name: api, limit: 200/s}\n", "127.0.0.1:0",
		"-cert", filepath.Join(dir, "cert"), "-key", filepath.Join(dir, "key"), "-client-ca", filepath.Join(dir, "cert"))
	get := func(token string, certificates ...tls.Certificate) (int, error) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certificates}}}
		defer client.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.address+"/v1/limits/api", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		w, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		return w.StatusCode, w.Body.Close()
	}
	for _, c := range []struct {
		token        string
		certificates []tls.Certificate
		status       int
	}{
		{"secret", []tls.Certificate{pair}, http.StatusOK},
		{"wrong", []tls.Certificate{pair}, http.StatusUnauthorized},
		{"secret", nil, 0},
	} {
		status, err := get(c.token, c.certificates...)
		require.Equal(t, c.status, status)
		require.Equal(t, c.status == 0, err != nil, err)
	}
}

// Where TLS ends elsewhere, the server says so and requires a token; probes need neither.
func TestServeBehindTLS(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte("turns secret\n"), 0o600))
	for _, c := range []struct {
		o     serving
		token string
		wrong string
	}{
		{serving{listen: ":9467"}, "secret", "--no-tls"},
		{serving{listen: ":9467", noTLS: true}, "", "--tokens"},
		{serving{listen: ":9467", noTLS: true, cert: "a", key: "b"}, "secret", "--no-tls and --cert"},
		{serving{listen: ":9467", noTLS: true}, "secret", ""},
		{serving{listen: ":9467", noTLS: true, tokens: path}, "", ""},
	} {
		_, err := c.o.secure(c.token, io.Discard)
		require.Equal(t, c.wrong == "", err == nil, err)
		if c.wrong != "" {
			require.ErrorContains(t, err, c.wrong)
		}
	}
	server := redistest.New(t)
	probes, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := probes.Addr().String()
	require.NoError(t, probes.Close())
	s := serveTurnsOf(t, server, redistest.Prefix(t), "limits:\n  - {name: api, limit: 200/s}\n", "0.0.0.0:0",
		"-no-tls", "-tokens", path, "-probes", address)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(s.address, "http://"))
	require.NoError(t, err)
	for url, status := range map[string]int{
		"http://" + address + "/readyz": http.StatusOK, "http://127.0.0.1:" + port + "/v1/limits": http.StatusUnauthorized,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		w, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, w.Body.Close())
		require.Equal(t, status, w.StatusCode, url)
	}
	http.DefaultClient.CloseIdleConnections()
}

// A new certificate is used for new connections, and a wrong one is not.
func TestServeWithANewCertificate(t *testing.T) {
	dir, errs := t.TempDir(), &strings.Builder{}
	first, _ := certificateOf(t, dir)
	secure, err := serving{listen: ":9467", cert: filepath.Join(dir, "cert"), key: filepath.Join(dir, "key")}.secure("secret", errs)
	require.NoError(t, err)
	uses := func(want tls.Certificate) {
		is, err := secure.GetCertificate(nil)
		require.NoError(t, err)
		require.Equal(t, want.Certificate, is.Certificate)
	}
	uses(first)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cert"), nil, 0o600)) // as if it were written just now
	uses(first)
	require.Contains(t, errs.String(), "the previous one is still used")
	second, _ := certificateOf(t, dir)
	uses(second)
}

// certificateOf makes one for this machine, which is its own authority.
func certificateOf(t *testing.T, dir string) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	certificatePEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cert"), certificatePEM, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), keyPEM, 0o600))
	pair, err := tls.X509KeyPair(certificatePEM, keyPEM)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(certificatePEM))
	return pair, pool
}

package priority_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
)

// A right that is missing within a script is refused after the script may have
// written, so the store does not claim to know.
func TestARightMissingWithinTheScriptIsOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rules := []any{"acl", "setuser", "documents", "on", "nopass", "~*", "+@all", "-pexpire"}
	if err := server.Client().Do(t.Context(), rules...).Err(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "documents", Password: "any"})
	t.Cleanup(func() { _ = client.Close() })
	w := storeOf(t, client)
	w.next(t, "acme", counted(0)) // SET needs no PEXPIRE
	_, err := w.Next(t.Context(), "acme")
	wantClass(t, err, priority.ErrOutcomeUnknown)
}

func TestTLSWithCertificatesOnBothSides(t *testing.T) {
	t.Parallel()
	pki := newPKI(t)
	server := redistest.StartTLS(t, pki.certFile("server"), pki.keyFile("server"), pki.caFile)
	newClient := func(config *tls.Config) *redis.Client {
		client := redis.NewClient(&redis.Options{Addr: server.Addr, TLSConfig: config, DialerRetries: 1})
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	pair := must(tls.LoadX509KeyPair(pki.certFile("client"), pki.keyFile("client")))(t)
	store := openStore(t, newClient(&tls.Config{RootCAs: pki.roots, Certificates: []tls.Certificate{pair}}), patient)
	must(store.Next(t.Context(), "acme"))(t)
	for name, call := range everyCall(t, store, "acme", "a") {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	for name, client := range map[string]*redis.Client{
		"without TLS":                  newClient(nil),
		"without a client certificate": newClient(&tls.Config{RootCAs: pki.roots}),
		"from an unknown authority":    newClient(&tls.Config{Certificates: []tls.Certificate{pair}}),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openStore(t, client, nil).Next(t.Context(), "acme")
			wantClass(t, err, priority.ErrNotCounted)
		})
	}
}

// What customers and documents are called never reaches a log as it is.
func TestErrorsQuoteNames(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := openStore(t, server.Client(), nil)
	server.Kill()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, name := range []string{"a\nERROR forged line", "\x1b[31mred", "a\x00b", "\xff\xfe", strings.Repeat("x", 512)} {
		_, err1 := store.Next(t.Context(), name)
		_, err2 := new(memory.Store).Next(canceled, name)
		_, err3 := store.Next(t.Context(), name+strings.Repeat("y", 512))
		_, err4 := store.Submit(t.Context(), "acme", name+strings.Repeat("y", 512), 0)
		for _, err := range []error{err1, err2, err3, err4} {
			if err == nil {
				t.Fatalf("%q: no error", name)
			}
			message := err.Error()
			if regexp.MustCompile(`[\x00-\x1f\x7f-\xff]`).MatchString(strings.ReplaceAll(message, "…", "")) {
				t.Errorf("the message has raw bytes: %q", message)
			}
			if len(message) > 400 {
				t.Errorf("the message has %d bytes: %q", len(message), message)
			}
		}
	}
}

// pki is a certificate authority and what it has signed, in files.
type pki struct {
	t      *testing.T
	dir    string
	caFile string
	roots  *x509.CertPool
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	p := &pki{t: t, dir: t.TempDir(), roots: x509.NewCertPool()}
	p.caFile = p.certFile("ca")
	ca, caKey := p.sign("ca", nil, nil)
	p.roots.AddCert(ca)
	for _, name := range []string{"server", "client"} {
		p.sign(name, ca, caKey)
	}
	return p
}

func (p *pki) certFile(name string) string { return filepath.Join(p.dir, name+".crt") }
func (p *pki) keyFile(name string) string  { return filepath.Join(p.dir, name+".key") }

// sign writes a certificate and its key; without a parent it signs itself.
func (p *pki) sign(name string, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	p.t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(p.t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if parent == nil {
		parent, parentKey = template, key
		template.IsCA, template.BasicConstraintsValid = true, true
		template.KeyUsage |= x509.KeyUsageCertSign
	}
	certificate := must(x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey))(p.t)
	for file, block := range map[string]*pem.Block{
		p.certFile(name): {Type: "CERTIFICATE", Bytes: certificate},
		p.keyFile(name):  {Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))(p.t)},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	return must(x509.ParseCertificate(certificate))(p.t), key
}

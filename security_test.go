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
)

// documentedUser creates the ACL user that the README spells out, with further
// rules, and returns its name and password.
func documentedUser(t *testing.T, server *redistest.Server, further ...any) (user, password string) {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`redis-cli (ACL SETUSER .*)`).FindSubmatch(readme)
	if line == nil {
		t.Fatal("README.md has no line with ACL SETUSER")
	}
	var args []any
	for _, word := range strings.Fields(string(line[1])) {
		args = append(args, strings.Trim(word, "'"))
	}
	if err := server.Client().Do(context.Background(), append(args, further...)...).Err(); err != nil {
		t.Fatal(err)
	}
	return "documents", "secret"
}

// everyOperation does all that a store can do.
func everyOperation(t *testing.T, store *priority.RedisStore) {
	t.Helper()
	ctx := context.Background()
	if _, err := store.Next(ctx, "acme"); err != nil {
		t.Error(err)
	}
	if _, err := store.NextN(ctx, "acme", 3); err != nil {
		t.Error(err)
	}
	if _, err := store.NextEach(ctx, []string{"acme", "b", "c", "d", "e"}); err != nil {
		t.Error(err)
	}
	if decision, err := store.Peek(ctx, "acme"); err != nil || decision.Count != -4 {
		t.Errorf("got %+v, %v; want count -4", decision, err)
	}
	if err := store.Reset(ctx, "acme"); err != nil {
		t.Error(err)
	}
}

// The documented user's rights are enough for everything, and for nothing else.
func TestLeastRights(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	user, password := documentedUser(t, server)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: user, Password: password})
	defer client.Close()
	pipeliner, err := client.AutoPipeline()
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
		policy := priority.Policy{ResetMode: mode}
		everyOperation(t, openStore(t, client, &priority.RedisOptions{Policy: policy}))
		everyOperation(t, openStore(t, pipeliner, &priority.RedisOptions{Policy: policy}))
	}

	_, err = openStore(t, client, &priority.RedisOptions{Prefix: "another"}).Next(ctx, "acme")
	if err == nil {
		t.Error("the user counts under another prefix")
	}
	names, err := server.Client().Do(ctx, "command", "list").StringSlice()
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]bool{
		"evalsha": true, "eval": true, "get": true, "decr": true, "decrby": true, "incr": true, "incrby": true,
		"pexpire": true, "pttl": true, "unlink": true,
		// Every user may have these: they come before or end a login.
		"auth": true, "hello": true, "reset": true, "quit": true,
	}
	for _, name := range names {
		info, err := server.Client().Do(ctx, "command", "info", name).Slice()
		if err != nil {
			t.Fatal(err)
		}
		arity := info[0].([]any)[1].(int64)
		dryRun := []any{"acl", "dryrun", user}
		for word := range strings.SplitSeq(name, "|") {
			dryRun = append(dryRun, word)
		}
		for int64(len(dryRun)-3) < max(arity, -arity) {
			dryRun = append(dryRun, "priority:{acme}:count")
		}
		verdict := server.Client().Do(ctx, dryRun...)
		if verdict.Err() == nil && verdict.Val() == "OK" && !allowed[name] {
			t.Errorf("the user may call %s", name)
		}
	}
	if err := client.Get(ctx, "stranger").Err(); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("the user reads a stranger's key: %v", err)
	}
	script := "return redis.call('GET', 'stranger')"
	if err := client.Eval(ctx, script, nil).Err(); err == nil || err == redis.Nil {
		t.Error("the user's scripts read a stranger's key")
	}
}

func TestLeastRightsOnACluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	var user, password string
	for _, node := range cluster.Masters {
		user, password = documentedUser(t, node, "+cluster|slots")
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Username: user, Password: password})
	defer client.Close()
	everyOperation(t, openStore(t, client, nil))
}

// A right that is missing within a script is refused after the script may have
// written, so the store does not claim to know.
func TestRightMissingWithinTheScript(t *testing.T) {
	server := redistest.Start(t)
	user, password := documentedUser(t, server, "-pexpire")
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: user, Password: password})
	defer client.Close()
	store := openStore(t, client, nil)
	_, err := store.Next(context.Background(), "acme")
	wantClass(t, err, priority.ErrOutcomeUnknown)
}

func TestTLS(t *testing.T) {
	ctx := context.Background()
	pki := newPKI(t)
	server := redistest.StartTLS(t, pki.certFile("server"), pki.keyFile("server"), pki.caFile)
	newClient := func(config *tls.Config) *redis.Client {
		client := redis.NewClient(&redis.Options{Addr: server.Addr, TLSConfig: config, DialerRetries: 1})
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	pair, err := tls.LoadX509KeyPair(pki.certFile("client"), pki.keyFile("client"))
	if err != nil {
		t.Fatal(err)
	}
	everyOperation(t, openStore(t, newClient(&tls.Config{RootCAs: pki.roots, Certificates: []tls.Certificate{pair}}), nil))

	for name, client := range map[string]*redis.Client{
		"without TLS":                  newClient(nil),
		"without a client certificate": newClient(&tls.Config{RootCAs: pki.roots}),
		"from an unknown authority":    newClient(&tls.Config{Certificates: []tls.Certificate{pair}}),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openStore(t, client, nil).Next(ctx, "acme")
			wantClass(t, err, priority.ErrNotCounted)
		})
	}
}

// What customers are called never reaches a log as it is.
func TestErrorsQuoteCustomers(t *testing.T) {
	server := redistest.Start(t)
	store := openStore(t, server.Client(), nil)
	server.Kill()
	memory := &priority.MemoryStore{}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, customer := range []string{"a\nERROR forged line", "\x1b[31mred", "a\x00b", "\xff\xfe", strings.Repeat("x", 512)} {
		_, err1 := store.Next(context.Background(), customer)
		_, err2 := memory.Next(canceled, customer)
		_, err3 := store.Next(context.Background(), customer+strings.Repeat("y", 512))
		for _, err := range []error{err1, err2, err3} {
			if err == nil {
				t.Fatalf("%q: no error", customer)
			}
			message := err.Error()
			if regexp.MustCompile(`[\x00-\x1f\x7f-\xff]`).MatchString(strings.ReplaceAll(message, "…", "")) {
				t.Errorf("the message has raw bytes: %q", message)
			}
			if len(message) > 300 {
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
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
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
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		p.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		p.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		p.certFile(name): {Type: "CERTIFICATE", Bytes: der},
		p.keyFile(name):  {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		p.t.Fatal(err)
	}
	return certificate, key
}

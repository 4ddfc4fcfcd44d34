// Package python_test runs the tests of the Python client on real servers, and checks its
// types. Package release installs it as its users do.
package python_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/brokertest"
	"github.com/docpriority/priority/internal/markdown"
	"github.com/docpriority/priority/internal/redistest"
)

// python returns a Python that has some modules, or skips the test and says how to
// install them.
func python(t testing.TB, modules, packages string) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(name, "-c", "import "+modules).Run() == nil {
			return name
		}
	}
	redistest.Skip(t, "no python3 has "+modules+": apt-get install "+packages)
	return ""
}

// run runs a program in a directory, and returns what it printed.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	// Nothing is written into the checkout.
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), env...)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, output)
	}
	return string(output)
}

func TestPythonKeepsItsPromises(t *testing.T) {
	t.Parallel()
	interpreter := python(t, "redis.asyncio, celery", "python3-redis python3-celery")
	socket := filepath.Join(t.TempDir(), "redis.sock")
	server := redistest.Start(t, "--unixsocket", socket)
	cluster := redistest.StartCluster(t, 3)
	master := redistest.Start(t)
	redistest.StartReplica(t, master)
	certificate, key := signed(t)
	tls := redistest.StartTLS(t, certificate, key, certificate)
	env := []string{
		// Another version of redis-py may be given by PYTHONPATH.
		"PYTHONPATH=src:" + os.Getenv("PYTHONPATH"), "REDIS=" + server.Addr, "REDIS_SOCKET=" + socket, "REDIS_CLUSTER=" + cluster.Masters[0].Addr,
		"REDIS_SENTINEL=" + redistest.StartSentinel(t, master), "REDIS_TLS=" + tls.Addr, "REDIS_TLS_FILES=" + certificate + ":" + key,
	}
	output := run(t, ".", env, interpreter, "-W", "error", "-W", "ignore::ResourceWarning", "-m", "unittest", "discover", "-t", ".", "-s", "tests")
	if !strings.HasSuffix(output, "\nOK\n") { // not "OK (skipped=1)"
		t.Errorf("unittest:\n%s", output)
	}
}

func BenchmarkFlood(b *testing.B) {
	interpreter := python(b, "celery", "python3-redis python3-celery")
	brokertest.Flood(b, func(b *testing.B, policy priority.Policy, all []brokertest.Arrival) map[string]brokertest.Times {
		command := exec.Command(interpreter, "-m", "tests.celery_flood")
		command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore", "PYTHONPATH=src:"+os.Getenv("PYTHONPATH"), "REDIS=redis://"+redistest.Start(b).Addr)
		return brokertest.Script(b, policy, all, command)
	}, 9)
}

// Operators see a Python process as they see one in Go, and it does what they say.
func TestPythonJoinsTheFleet(t *testing.T) {
	t.Parallel()
	interpreter := python(t, "redis", "python3-redis")
	const program = `
import sys, docpriority, redis, redis.cluster
kind = redis.cluster.RedisCluster if sys.argv[1] == "cluster" else redis.Redis
with docpriority.Store(kind.from_url(sys.argv[2]), timeout=60, join=True, name="worker-4") as store:
    store.next_n(b"\xff", 22)
    store.submit("acme", "invoice-1")
    store.done("acme", "invoice-1")
    for line in sys.stdin:
        print(store.next_n(line, 3)[-1].level, flush=True)
`
	for _, kind := range []string{"single", "cluster"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var client redis.UniversalClient
			var addr string
			if kind == "cluster" {
				cluster := redistest.StartCluster(t, 3)
				client, addr = cluster.Client(), cluster.Masters[0].Addr
			} else {
				server := redistest.Start(t)
				client, addr = server.Client(), server.Addr
			}
			cmd := exec.Command(interpreter, "-c", program, kind, "redis://"+addr)
			cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=src:"+os.Getenv("PYTHONPATH"))
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			input, err := cmd.StdinPipe()
			check(t, err)
			output, err := cmd.StdoutPipe()
			check(t, err)
			check(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill() })

			ctx := t.Context()
			var report fleet.Report
			reported := func(what string, condition func() bool) {
				t.Helper()
				redistest.Await(t, what, func() bool {
					reports, err := fleet.Read(ctx, client, "")
					check(t, err)
					if len(reports) == 0 {
						return false
					}
					report = reports[0]
					check(t, report.Err)
					return condition()
				})
			}
			reported("the documents are reported", func() bool { return report.ByCount[9] == 1 && report.Waits[1].Count() == 1 })
			if report.Name != "worker-4" || report.Language != "python" || report.Levels != 9 || !report.Overrides || report.Degraded {
				t.Errorf("it reports %+v", report)
			}
			if report.Documents() != 23 || report.ByLoad[1] != 1 || len(report.Busiest) != 2 || report.Busiest[0].Customer != "\xff" {
				t.Errorf("it reports documents %+v", report)
			}
			admin, err := control.NewAdmin(client, nil)
			check(t, err)
			version, err := admin.Apply(ctx, 0, control.Rules{Policy: priority.Policy{Thresholds: []int64{0, -1}}}, control.Change{By: "mary", Why: "a test"})
			check(t, err)
			reported("the rules are followed", func() bool { return report.Follows(version) })
			_, err = fmt.Fprintln(input, "customer")
			check(t, err)
			var level int
			if _, err := fmt.Fscanln(output, &level); err != nil || level != 3 {
				t.Errorf("by the operators' rules, level is %d, %v", level, err)
			}
			check(t, input.Close())
			if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
				t.Errorf("%v\n%s", err, stderr.Bytes())
			}
			if reports, err := fleet.Read(ctx, client, ""); err != nil || len(reports) > 0 {
				t.Errorf("after its end there are %v, %v", reports, err)
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPythonTypesAreStrict(t *testing.T) {
	t.Parallel()
	interpreter := python(t, "mypy, redis.asyncio", "mypy python3-redis")
	cache := "--cache-dir=" + t.TempDir()
	run(t, ".", nil, interpreter, "-m", "mypy", cache, "src")
	run(t, ".", []string{"MYPYPATH=src"}, interpreter, "-m", "mypy", cache, "conformance/driver.py")

	// Celery has no types.
	args := []string{"-m", "mypy", cache, "--ignore-missing-imports", "--allow-untyped-decorators"}
	dir := t.TempDir()
	for i, block := range markdown.Read(t, "README.md").Blocks("python") {
		args = append(args, filepath.Join(dir, fmt.Sprintf("snippet%d.py", i+1)))
		if err := os.WriteFile(args[len(args)-1], []byte(block), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(t, ".", []string{"MYPYPATH=src"}, interpreter, args...)
}

// signed writes a certificate for 127.0.0.1 that is its own authority, and its key.
func signed(t *testing.T) (certificateFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificateFile, keyFile = filepath.Join(dir, "own.crt"), filepath.Join(dir, "own.key")
	for file, block := range map[string]*pem.Block{
		certificateFile: {Type: "CERTIFICATE", Bytes: certificate},
		keyFile:         {Type: "PRIVATE KEY", Bytes: private},
	} {
		var text bytes.Buffer
		if err := pem.Encode(&text, block); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificateFile, keyFile
}

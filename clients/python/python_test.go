// Package python_test runs the tests of the Python client on real servers, and checks its
// types. Package release installs it as its users do.
package python_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/testing/brokertest"
	"github.com/docpriority/priority/internal/testing/markdown"
	"github.com/docpriority/priority/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // the tests wait most of the time
		panic(err)
	}
	os.Exit(m.Run())
}

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
	server := redistest.Start(t)
	master := redistest.Start(t)
	redistest.StartReplica(t, master)
	certificate, key := signed(t)
	tls := startTLS(t, certificate, key)
	env := []string{
		// Another version of redis-py may be given by PYTHONPATH.
		"PYTHONPATH=src:" + os.Getenv("PYTHONPATH"), "REDIS=" + server.Addr,
		"REDIS_SENTINEL=" + redistest.StartSentinel(t, master), "REDIS_TLS=" + tls, "REDIS_TLS_FILES=" + certificate + ":" + key,
	}
	output := run(t, ".", env, interpreter, "-W", "error", "-W", "ignore::ResourceWarning", "-m", "unittest", "discover", "-t", ".", "-s", "tests")
	if !strings.HasSuffix(output, "\nOK\n") { // not "OK (skipped=1)"
		t.Errorf("unittest:\n%s", output)
	}
}

func BenchmarkFlood(b *testing.B) {
	interpreter := python(b, "celery", "python3-redis python3-celery")
	brokertest.Flood(b, brokertest.Script(func(redis string) *exec.Cmd {
		command := exec.Command(interpreter, "-m", "tests.celery_flood")
		command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore", "PYTHONPATH=src:"+os.Getenv("PYTHONPATH"), "REDIS="+redis)
		return command
	}))
}

func TestPythonTypesAreStrict(t *testing.T) {
	t.Parallel()
	interpreter := python(t, "mypy, redis.asyncio", "mypy python3-redis")
	cache := "--cache-dir=" + t.TempDir()
	args := []string{"-m", "mypy", cache, "src", "conformance/driver.py"}
	dir := t.TempDir()
	for i, block := range markdown.Read(t, "README.md").Blocks("python") {
		args = append(args, filepath.Join(dir, fmt.Sprintf("snippet%d.py", i+1)))
		if err := os.WriteFile(args[len(args)-1], []byte("# mypy: allow-untyped-decorators\n"+block), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(t, ".", []string{"MYPYPATH=src"}, interpreter, args...)
}

// startTLS starts the machine's own redis-server, as others may be built without TLS. It takes
// connections by TLS only, and only from clients with the same certificate.
func startTLS(t *testing.T, certificateFile, keyFile string) (address string) {
	t.Helper()
	port := fmt.Sprint(redistest.FreePort(t))
	redistest.StartProgram(t, exec.Command(redistest.Find(t, "redis-server", "redis-server"),
		"--port", "0", "--tls-port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--logfile", "redis.log", "--save", "",
		"--tls-cert-file", certificateFile, "--tls-key-file", keyFile, "--tls-ca-cert-file", certificateFile))
	address = "127.0.0.1:" + port
	redistest.Await(t, "redis-server listens", func() bool {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			_ = connection.Close()
		}
		return err == nil
	})
	return address
}

// signed writes a certificate for 127.0.0.1 that is its own authority, and its key.
func signed(t *testing.T) (certificateFile, keyFile string) {
	t.Helper()
	dir := t.TempDir()
	certificateFile, keyFile = filepath.Join(dir, "own.crt"), filepath.Join(dir, "own.key")
	run(t, dir, nil, redistest.Find(t, "openssl", "openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=own",
		"-addext", "subjectAltName=IP:127.0.0.1", "-out", certificateFile, "-keyout", keyFile)
	return certificateFile, keyFile
}

// Package nodetest makes copies of the Node.js client for tests, so that nothing is written into the checkout.
package nodetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/testing/redistest"
	"github.com/docpriority/priority/internal/testing/vectors"
)

// Client returns a copy of clients/nodejs with the packages that its tests need, which npm installs
// once for all copies: into the user's cache, by the text of package.json.
func Client(tb testing.TB) string {
	tb.Helper()
	redistest.Find(tb, "node", "nodejs npm")
	npm := redistest.Find(tb, "npm", "nodejs npm")
	root, err := vectors.Root()
	if err != nil {
		tb.Fatal(err)
	}
	const client = "clients/nodejs"
	here, there := filepath.Join(tb.TempDir(), client), filepath.Join(root, client)
	for _, name := range []string{"src", "test", "conformance"} { // not node_modules, which a developer may have there
		err = errors.Join(err, os.CopyFS(filepath.Join(here, name), os.DirFS(filepath.Join(there, name))))
	}
	for _, name := range []string{"package.json", "README.md", "LICENSE"} {
		text, failed := os.ReadFile(filepath.Join(there, name))
		err = errors.Join(err, failed, os.WriteFile(filepath.Join(here, name), text, 0o644))
	}
	err = errors.Join(err, os.CopyFS(filepath.Join(here, "../../vectors"), os.DirFS(filepath.Join(root, "vectors"))))
	if err != nil {
		tb.Fatal(err)
	}
	installed, err := install(npm, filepath.Join(here, "package.json"))
	if err != nil {
		redistest.Skip(tb, err.Error())
	}
	if err := os.Symlink(installed, filepath.Join(here, "node_modules")); err != nil {
		tb.Fatal(err)
	}
	return here
}

// install returns a folder with the packages that a package.json names.
func install(npm, file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "docpriority-nodejs", fmt.Sprintf("%.16x", sha256.Sum256(text)))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	// Tests of several packages run at once.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	installed, whole := filepath.Join(dir, "node_modules"), filepath.Join(dir, "whole")
	if _, err := os.Stat(whole); err == nil {
		return installed, nil
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), text, 0o644); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, npm, "install", "--no-package-lock", "--fetch-retries=5", "--ignore-scripts", "--no-audit", "--no-fund")
	command.Dir = dir
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install, which needs the npm registry: %w\n%s", err, output)
	}
	return installed, os.WriteFile(whole, nil, 0o644)
}

// Package nodetest installs a Node.js package of this repository for tests: in a copy,
// so that nothing is written into the checkout.
package nodetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/testing/redistest"
)

// Copy is a copy of what Node.js programs of this repository need of it. The zero Copy
// is ready to use. A package's tests share one, and its TestMain removes it.
type Copy struct {
	once sync.Once
	root string
	err  error
}

// Install returns the copy of a folder, such as clients/nodejs, with what its
// package-lock.json names installed by npm. root is the repository's.
func (c *Copy) Install(tb testing.TB, root, folder string) string {
	tb.Helper()
	redistest.Find(tb, "node", "nodejs npm")
	npm := redistest.Find(tb, "npm", "nodejs npm")
	c.once.Do(func() {
		if c.root, c.err = os.MkdirTemp("", "nodejs-"); c.err != nil {
			return
		}
		// Not node_modules, which a developer may have there.
		for _, name := range []string{"vectors", folder + "/src", folder + "/test", folder + "/conformance"} {
			c.err = errors.Join(c.err, os.CopyFS(filepath.Join(c.root, name), os.DirFS(filepath.Join(root, name))))
		}
		for _, name := range []string{"package.json", "package-lock.json", "README.md", "LICENSE"} {
			text, err := os.ReadFile(filepath.Join(root, folder, name))
			c.err = errors.Join(c.err, err, os.WriteFile(filepath.Join(c.root, folder, name), text, 0o644))
		}
		if c.err == nil {
			c.err = install(npm, filepath.Join(c.root, folder))
		}
	})
	if c.err != nil {
		redistest.Skip(tb, c.err.Error())
	}
	return filepath.Join(c.root, folder)
}

// Remove removes the copy.
func (c *Copy) Remove() {
	if c.root != "" {
		_ = os.RemoveAll(c.root)
	}
}

func install(npm, dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, npm, "ci", "--fetch-retries=5", "--ignore-scripts", "--no-audit", "--no-fund")
	command.Dir = dir
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci, which needs the npm registry: %w\n%s", err, output)
	}
	return nil
}

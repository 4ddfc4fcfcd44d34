// Package nodetest installs a Node.js package of this repository for tests: in a copy,
// so that nothing is written into the checkout.
package nodetest

import (
	"context"
	"fmt"
	"io/fs"
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
	mu        sync.Mutex
	root      string
	installed map[string]error
}

// Install returns the copy of a folder, such as clients/nodejs, with what its
// package-lock.json names installed by npm. root is the repository's.
func (c *Copy) Install(tb testing.TB, root, folder string) string {
	tb.Helper()
	redistest.Find(tb, "node", "nodejs npm")
	npm := redistest.Find(tb, "npm", "nodejs npm")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.root == "" {
		to, err := copied(root)
		if err != nil {
			tb.Fatal(err)
		}
		c.root, c.installed = to, make(map[string]error)
	}
	dir := filepath.Join(c.root, folder)
	if _, ok := c.installed[folder]; !ok {
		c.installed[folder] = install(npm, dir)
	}
	if err := c.installed[folder]; err != nil {
		redistest.Skip(tb, err.Error())
	}
	return dir
}

// Remove removes the copy.
func (c *Copy) Remove() {
	if c.root != "" {
		_ = os.RemoveAll(c.root)
	}
}

func copied(root string) (string, error) {
	to, err := os.MkdirTemp("", "nodejs-")
	if err != nil {
		return "", err
	}
	for _, folder := range []string{"clients/nodejs", "vectors"} {
		if err := copyFolder(filepath.Join(root, folder), filepath.Join(to, folder)); err != nil {
			return "", err
		}
	}
	return to, nil
}

func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if entry.Name() == "node_modules" {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, 0o644)
	})
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

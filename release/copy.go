package main

import (
	"context"
	"os"
	"path/filepath"
)

// copyTo makes a repository in dir, with the history of the tree and, in a commit
// more, what is in the tree now.
func (t tree) copyTo(ctx context.Context, dir string) (tree, error) {
	if _, err := t.git(ctx, "clone", "--quiet", "--no-checkout", ".", dir); err != nil {
		return tree{}, err
	}
	files, err := t.files(ctx)
	if err != nil {
		return tree{}, err
	}
	copied := tree{dir}
	for name, value := range map[string]string{ // no name, key or hook of this machine's user
		"user.name": "rehearsal", "user.email": "rehearsal@localhost", "core.hooksPath": os.DevNull,
		"commit.gpgSign": "false", "tag.gpgSign": "false", "advice.detachedHead": "false",
	} {
		if _, err := copied.git(ctx, "config", name, value); err != nil {
			return tree{}, err
		}
	}
	for _, name := range files {
		if err := copyFile(t.at(name), copied.at(name)); err != nil {
			return tree{}, err
		}
	}
	return copied, copied.commit(ctx)
}

// commit takes all that is in a copy, what the machine's user has git ignore too.
func (t tree) commit(ctx context.Context) error {
	if _, err := t.git(ctx, "add", "--all", "--force"); err != nil {
		return err
	}
	_, err := t.git(ctx, "commit", "--quiet", "--allow-empty", "--message", "What is rehearsed")
	return err
}

func copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}

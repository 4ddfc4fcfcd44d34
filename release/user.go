package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// user is somebody on the oldest Go that we support, who has nothing of ours but what
// is published.
type user struct {
	path      string // a folder of programs that come before those of this machine
	variables []string
}

// userFlags let what is unpacked be removed again. What is compiled does not depend on
// its folder, and so is compiled once and not in every rehearsal.
const userFlags = "-modcacherw -trimpath"

// userOf returns somebody who has none of our modules but those that are packed in a
// module cache. All others come from this machine's cache, or from where it gets them.
func userOf(ctx context.Context, dir, cache, oldest string) (user, error) {
	said, err := output(ctx, dir, nil, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return user{}, err
	}
	machines, proxies, _ := strings.Cut(said, "\n")
	root, err := output(ctx, dir, []string{"GOTOOLCHAIN=go" + oldest, "GOWORK=off"}, "go", "env", "GOROOT")
	if err != nil {
		return user{}, fmt.Errorf("no Go %s is to be had: %w", oldest, err)
	}
	u := user{path: filepath.Join(dir, "path")}
	u.variables = []string{
		"GOTOOLCHAIN=local",
		"GOWORK=off",
		"GOFLAGS=-mod=mod " + userFlags,
		"GOMODCACHE=" + filepath.Join(dir, "modules"),
		"GOPROXY=" + strings.Join([]string{fileProxy(cache), fileProxy(machines), proxies}, ","),
		"GONOSUMDB=" + rootPath,
		"GONOPROXY=none",
		"GOBIN=" + filepath.Join(dir, "bin"),
		"PATH=" + u.path + string(filepath.ListSeparator) + os.Getenv("PATH"),
	}
	if err := u.add("go", filepath.Join(root, "bin", "go")); err != nil {
		return user{}, err
	}
	said, err = u.run(ctx, dir, "env", "GOVERSION")
	if err == nil && said != "go"+oldest {
		err = fmt.Errorf("%s is %s, not go%s", root, said, oldest)
	}
	return u, err
}

// fileProxy is the address of a module cache as a proxy.
func fileProxy(cache string) string {
	return "file://" + filepath.ToSlash(filepath.Join(cache, "cache", "download"))
}

// add gives the user a program.
func (u user) add(name, program string) error {
	if err := os.MkdirAll(u.path, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(u.path, name), []byte("#!/bin/sh\nexec "+program+" \"$@\"\n"), 0o755)
}

// run runs the go command in a folder.
func (u user) run(ctx context.Context, dir string, arguments ...string) (string, error) {
	return output(ctx, dir, u.variables, filepath.Join(u.path, "go"), arguments...)
}

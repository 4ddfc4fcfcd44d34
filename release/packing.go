package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	xmodule "golang.org/x/mod/module"
)

// packed is a module's version as everybody gets it.
type packed struct {
	Path, Version, Zip string
	Sum, GoModSum      string
}

// pack lets the go command itself make the published form of modules out of the tags
// of a repository on this machine, in a module cache of its own: its rules are kept,
// and what is tagged is what users get. The cache's folder cache/download is a proxy.
func pack(ctx context.Context, repository tree, cache, version string, modules ...module) ([]packed, error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	arguments := []string{"mod", "download", "-json"}
	for _, module := range modules {
		arguments = append(arguments, module.path()+"@"+version)
	}
	said, err := output(ctx, cache, []string{
		"GOWORK=off",
		"GOFLAGS=-modcacherw",
		"GOMODCACHE=" + cache,
		"GOPROXY=direct",
		"GONOSUMDB=" + rootPath,
		"GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url.file://" + filepath.ToSlash(repository.dir) + ".insteadOf",
		"GIT_CONFIG_VALUE_0=https://" + rootPath,
	}, "go", arguments...)
	if err != nil {
		return nil, err
	}
	var all []packed
	for decoder := json.NewDecoder(strings.NewReader(said)); decoder.More(); {
		var one packed
		if err := decoder.Decode(&one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// setSums gives every go.sum the hashes of our modules in this version. A module's
// go.sum is a part of it, so each is packed before those that require it.
func (t tree) setSums(ctx context.Context, version string) error {
	work, err := os.MkdirTemp("", "release-sums-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	copied, err := t.copyTo(ctx, filepath.Join(work, "tree"))
	if err != nil {
		return err
	}
	modules, err := t.modules(ctx)
	if err != nil {
		return err
	}
	var made []packed
	for _, module := range modules {
		if err := copied.setSumsOf(module, made); err != nil {
			return err
		}
		if !isPublished(module.folder) {
			continue
		}
		if err := copied.commit(ctx); err != nil {
			return err
		}
		if _, err := copied.git(ctx, "tag", "--force", module.tag(version)); err != nil {
			return err
		}
		one, err := pack(ctx, copied, filepath.Join(work, "cache"), version, module)
		if err != nil {
			return err
		}
		made = append(made, one...)
	}
	for _, module := range modules {
		text, err := copied.readIfThere(module.goSum())
		if err != nil {
			return err
		}
		if err := t.write(module.goSum(), text); err != nil {
			return err
		}
	}
	return nil
}

// setSumsOf writes into a go.sum the sums of what its go.mod requires, in the order
// of the go command.
func (t tree) setSumsOf(m module, made []packed) error {
	text, err := t.readIfThere(m.goSum())
	if err != nil {
		return err
	}
	var versions []xmodule.Version
	hashes := make(map[xmodule.Version]string)
	add := func(path, version, hash string) {
		one := xmodule.Version{Path: path, Version: version}
		versions, hashes[one] = append(versions, one), hash
	}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 3 && !ours(fields[0]) {
			add(fields[0], fields[1], fields[2])
		}
	}
	for _, one := range made {
		if slices.ContainsFunc(m.Require, func(r *modfile.Require) bool { return r.Mod.Path == one.Path }) {
			add(one.Path, one.Version, one.Sum)
			add(one.Path, one.Version+"/go.mod", one.GoModSum)
		}
	}
	xmodule.Sort(versions)
	var sorted strings.Builder
	for _, one := range versions {
		fmt.Fprintln(&sorted, one.Path, one.Version, hashes[one])
	}
	return t.write(m.goSum(), sorted.String())
}

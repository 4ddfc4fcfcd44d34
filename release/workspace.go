package main

import (
	"fmt"
	"path"
	"regexp"
	"slices"

	"golang.org/x/mod/modfile"
)

// workspaceRules is about go.work: with it the tree's own modules are used while they
// are worked on. It uses each, and replaces each version that a go.mod names: without
// that, Go would look for a version that is not published yet.
func (t tree) workspaceRules(modules []module) error {
	text, err := t.read("go.work")
	if err != nil {
		return err
	}
	work, err := modfile.ParseWork("go.work", []byte(text), nil)
	if err != nil {
		return err
	}
	for _, module := range modules {
		used := slices.ContainsFunc(work.Use, func(use *modfile.Use) bool { return path.Clean(use.Path) == module.folder })
		if !used {
			return fmt.Errorf("go.work does not use ./%s", module.folder)
		}
		for _, require := range module.Require {
			if !ours(require.Mod.Path) {
				continue
			}
			replaced := slices.ContainsFunc(work.Replace, func(replace *modfile.Replace) bool { return replace.Old == require.Mod })
			if !replaced {
				return fmt.Errorf("go.work does not replace %s %s, which %s requires", require.Mod.Path, require.Mod.Version, module.goMod())
			}
		}
	}
	return nil
}

// setRequired makes every go.mod require our modules in this version, and go.work
// replace it.
func (t tree) setRequired(modules []module, version string) error {
	for _, module := range modules {
		for _, require := range module.Require {
			if !ours(require.Mod.Path) {
				continue
			}
			if err := module.AddRequire(require.Mod.Path, version); err != nil {
				return err
			}
		}
		text, err := module.Format()
		if err != nil {
			return err
		}
		if err := t.write(module.goMod(), string(text)); err != nil {
			return err
		}
	}
	work, err := t.read("go.work")
	if err != nil {
		return err
	}
	replaced := regexp.MustCompile(`(\s` + regexp.QuoteMeta(rootPath) + `(?:/\S+)?) v\S+ =>`)
	return t.write("go.work", replaced.ReplaceAllString(work, "${1} "+version+" =>"))
}

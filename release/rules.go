package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// believed returns the versions that count as tagged without a tag: those that the
// changelog has with a day, in a clone without any tag, such as that of CI.
func (t tree) believed(ctx context.Context) ([]string, error) {
	tagged, err := t.versions(ctx)
	if err != nil {
		return nil, err
	}
	if len(tagged) > 0 {
		return nil, t.fetched(ctx)
	}
	return t.released()
}

// rules returns what is wrong with what the tree says of versions. It reads files
// and tags only.
func (t tree) rules(ctx context.Context) error {
	modules, err := t.modules(ctx)
	if err != nil {
		return err
	}
	first, err := t.entry()
	if err != nil {
		return err
	}
	believed, err := t.believed(ctx)
	if err != nil {
		return err
	}
	var wrong []error
	say := func(format string, values ...any) { wrong = append(wrong, fmt.Errorf(format, values...)) }

	one, oneFile := "", "" // the version that all have, and who said it first
	lockStep := func(file, version string) {
		if one == "" {
			one, oneFile = version, file
		}
		if version != one {
			say("%s has %s, and %s has %s: all versions go in lock-step", file, version, oneFile, one)
		}
	}
	for _, module := range modules {
		for _, replace := range module.Replace {
			say("%s replaces %s: who installs the module does not get that; go.work is the place", module.goMod(), replace.Old.Path)
		}
		for _, require := range module.Require {
			if !ours(require.Mod.Path) {
				continue
			}
			required, version := find(modules, require.Mod.Path), require.Mod.Version
			if required == nil || !isPublished(required.folder) {
				say("%s requires %s, which is not published", module.goMod(), require.Mod.Path)
				continue
			}
			tagged, err := t.hasTag(ctx, required.tag(version))
			if err != nil {
				return err
			}
			if !tagged && version != first.version && !slices.Contains(believed, version) {
				say("%s requires %s %s, which is neither tagged nor in preparation (%s has %s)",
					module.goMod(), require.Mod.Path, version, changelog, first.version)
			}
			lockStep(module.goMod(), version)
		}
	}
	clients, err := t.clientVersions()
	if err != nil {
		return err
	}
	for _, client := range clients {
		lockStep(client.file, client.version)
	}
	if err := t.workspaceRules(modules); err != nil {
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}

func find(modules []module, name string) *module {
	for i := range modules {
		if modules[i].path() == name {
			return &modules[i]
		}
	}
	return nil
}

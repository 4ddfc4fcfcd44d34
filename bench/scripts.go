package main

import (
	"context"
	"embed"
	"io/fs"
	"path"
	"slices"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/incr-pexpire.lua
	floorLua string

	// variants are scripts that decide, or a part of it, in other ways than the
	// module's own. Each takes one key and answers integers.
	//go:embed lua/*.lua
	variants embed.FS
)

// measureScripts measures what Redis takes for each of the scripts.
func measureScripts(ctx context.Context, b *bench) (*report, error) {
	names, texts, err := allScripts()
	if err != nil {
		return nil, err
	}
	times, err := b.compareOnServer(ctx, "scripts", len(names), func(client *redis.AutoPipeliner, i int) (decide, error) {
		return scriptDecide(client, texts[i]), nil
	})
	if err != nil {
		return nil, err
	}
	floor := times[slices.Index(names, "incr-pexpire.lua")]
	return &report{
		title: "scripts",
		notes: b.serverTimeNote() + " The files are in bench/lua.",
		grids: []grid{serverTimeGrid("script", names, times, floor)},
	}, nil
}

// allScripts returns the names and texts of the module's own script and the
// variants.
func allScripts() (names, texts []string, err error) {
	store, err := offlineStore()
	if err != nil {
		return nil, nil, err
	}
	names, texts = []string{"the module's own"}, []string{store.NextScript("")}
	files, err := fs.Glob(variants, "lua/*.lua")
	if err != nil {
		return nil, nil, err
	}
	for _, file := range files {
		text, err := variants.ReadFile(file)
		if err != nil {
			return nil, nil, err
		}
		names, texts = append(names, path.Base(file)), append(texts, string(text))
	}
	return names, texts, nil
}

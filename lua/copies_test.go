package lua

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write the clients' copies of the scripts")

// The clients for other languages are packages of their own, which cannot reach
// out of their folders for the scripts.
var copied = []string{"done.lua", "follow.lua", "next.lua", "peek.lua", "report.lua", "reset.lua", "submit.lua"}

func TestTheClientsHaveTheSameScriptsByteForByte(t *testing.T) {
	for _, folder := range []string{"../clients/python/src/docpriority/lua", "../clients/nodejs/lua"} {
		if *update {
			writeCopies(t, folder)
		}
		var found []string
		files, err := filepath.Glob(filepath.Join(folder, "*.lua"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			found = append(found, filepath.Base(file))
		}
		if !slices.Equal(found, copied) {
			t.Errorf("%s has the scripts %q, want %q; go test ./lua -update writes them", folder, found, copied)
			continue
		}
		for _, file := range copied {
			got, err := os.ReadFile(filepath.Join(folder, file))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, []byte(scripts[file])) {
				t.Errorf("%s is not lua/%s; go test ./lua -update writes it", filepath.Join(folder, file), file)
			}
		}
	}
}

func writeCopies(t *testing.T, folder string) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range copied {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(scripts[file]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

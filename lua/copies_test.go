package lua

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the clients' copies of the scripts")

// The clients for other languages are packages of their own, which cannot reach
// out of their folders for the scripts.
var copied = []string{"done.lua", "follow.lua", "next.lua", "peek.lua", "report.lua", "reset.lua", "submit.lua"}

const pythonFolder = "../clients/python/src/docpriority/lua"

func TestThePythonClientHasTheSameScriptsByteForByte(t *testing.T) {
	for _, file := range copied {
		checkCopy(t, filepath.Join(pythonFolder, file), scripts[file])
	}
	files, err := filepath.Glob(filepath.Join(pythonFolder, "*.lua"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.Contains(copied, filepath.Base(file)) {
			t.Errorf("%s is a script that the client does not need", file)
		}
	}
}

// A bundler takes modules along, and no other files.
func TestTheNodeClientHasTheSameScriptsAsAModule(t *testing.T) {
	escape := strings.NewReplacer("\\", "\\\\", "`", "\\`", "${", "\\${")
	var module strings.Builder
	module.WriteString("'use strict';\n\n// The scripts of the folder lua. Written by go test ./lua -update.\n")
	for _, file := range copied {
		module.WriteString("\nexports." + strings.TrimSuffix(file, ".lua") + " = `" + escape.Replace(scripts[file]) + "`;\n")
	}
	checkCopy(t, "../clients/nodejs/src/lua.js", module.String())
}

func checkCopy(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, []byte(want)) {
		t.Errorf("%s is not what lua/ has; go test ./lua -update writes it", file)
	}
}

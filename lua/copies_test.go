package lua

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the clients' copies of the scripts")

// The clients for other languages are packages of their own, which cannot reach out of their
// folders for the scripts. A bundler takes modules along, and no other files.
var copied = []string{"done.lua", "follow.lua", "next.lua", "peek.lua", "report.lua", "reset.lua", "submit.lua"}

func TestTheClientsHaveTheSameScripts(t *testing.T) {
	python := "\"\"\"The scripts of the folder lua, which explains them. Written by go test ./lua -update.\"\"\"\n\nTEXTS = {\n"
	nodejs := "'use strict';\n\n// The scripts of the folder lua, which explains them. Written by go test ./lua -update.\n\nmodule.exports = {\n"
	texts := composed(t)
	for _, file := range copied {
		var text strings.Builder
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(withoutComments(texts[file])); err != nil {
			t.Fatal(err)
		}
		name, literal := strings.TrimSuffix(file, ".lua"), strings.TrimSpace(text.String())
		python += "    \"" + name + "\": " + literal + ",\n"
		nodejs += "  " + name + ": " + literal + ",\n"
	}
	checkCopy(t, "../clients/python/src/docpriority/_lua.py", python+"}\n")
	checkCopy(t, "../clients/nodejs/src/lua.js", nodejs+"};\n")
}

func checkCopy(t *testing.T, file, want string) {
	t.Helper()
	if *update {
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

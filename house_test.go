package priority_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/docpriority/priority"

// mayImport has for each room of the product what it may import: other rooms, of
// which "." is the root, and packages of other modules. So the arrows go one way.
var mayImport = map[string][]string{
	".":                 {"lua", "internal/fair", "internal/script", "internal/typednil", goRedis},
	"lua":               {},
	"memory":            {".", "internal/fair", "internal/typednil"},
	"control":           {".", "lua", "internal/script", "internal/typednil", goRedis},
	"fallback":          {".", "memory", "internal/expiring", "internal/typednil"},
	"observe":           {".", "internal/typednil"},
	"fleet":             {".", "control", "fallback", "observe", "lua", "internal/script", "internal/typednil", goRedis},
	"queue":             {"."},
	"internal/fair":     {},
	"internal/script":   {goRedis},
	"internal/expiring": {},
	"internal/typednil": {},

	// What page and priorityctl know.
	"internal/insight":        {".", "control", "fleet", "internal/fair", "internal/insight/census", goRedis},
	"internal/insight/census": {".", goRedis},
}

const goRedis = "github.com/redis/go-redis/v9"

func TestRoomsImportOneWay(t *testing.T) {
	t.Parallel()
	for room, files := range product(t) {
		allowed, known := mayImport[room]
		if !known {
			t.Errorf("%s is a room that this test does not know: say in mayImport what it may import", room)
			continue
		}
		for file, imports := range files {
			for _, imported := range imports {
				isStandard := !strings.Contains(imported, ".")
				if name, ok := roomOf(imported); ok {
					imported = name
				}
				if !isStandard && !slices.Contains(allowed, imported) {
					t.Errorf("%s imports %s", file, imported)
				}
			}
		}
	}
}

// product returns the rooms that a user's program can link, each with its files
// and what they import: the public packages but for prioritytest, examples and clients,
// and the internal ones that these, or page and priorityctl, need. What only tests and
// the laboratory need, such as internal/redistest, internal/ledger and internal/trace,
// is not among them.
func product(t *testing.T) map[string]map[string][]string {
	t.Helper()
	all := rooms(t)
	linked := make(map[string]map[string][]string)
	var link func(room string)
	link = func(room string) {
		if _, ok := linked[room]; ok {
			return
		}
		linked[room] = all[room]
		for _, imports := range all[room] {
			for _, imported := range imports {
				if name, ok := roomOf(imported); ok {
					link(name)
				}
			}
		}
	}
	link("internal/insight")
	for room := range all {
		switch first, _, _ := strings.Cut(room, "/"); first {
		case "internal", "examples", "prioritytest", "clients":
		default:
			link(room)
		}
	}
	return linked
}

// rooms returns the packages of the root module by their directories, without
// tests: of each its files, and of each file what it imports.
func rooms(t *testing.T) map[string]map[string][]string {
	t.Helper()
	found := make(map[string]map[string][]string)
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if file == "." {
				return nil
			}
			_, err := os.Stat(filepath.Join(file, "go.mod"))
			if err == nil || strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" {
				return filepath.SkipDir // another module, or none
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		file = filepath.ToSlash(file)
		room := path.Dir(file)
		if found[room] == nil {
			found[room] = make(map[string][]string)
		}
		found[room][file] = nil
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			found[room][file] = append(found[room][file], imported)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// roomOf returns the directory of a package of this module.
func roomOf(imported string) (room string, ok bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

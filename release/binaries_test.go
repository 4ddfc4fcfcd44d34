package release

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/docpriority/priority/internal/redistest"
)

// binaries builds priorityctl for this platform alone.
func (r *rehearsal) binaries(t *testing.T) {
	t.Parallel()
	npm := redistest.Find(t, "npm", "nodejs npm")
	if out, err := exec.CommandContext(t.Context(), npm, "view", "@cyclonedx/cdxgen", "version").CombinedOutput(); err != nil {
		redistest.Skip(t, "the SBOM, which wants the npm registry: "+err.Error()+"\n"+string(out))
	}
	dir := t.TempDir()
	platform := runtime.GOOS + "/" + runtime.GOARCH
	run(t, r.tree, append(r.env, npmEnv...), "release/binaries", version, dir, platform)

	program := "priorityctl-" + strings.ReplaceAll(platform, "/", "-")
	sums := run(t, dir, nil, "sha256sum", "--check", "SHA256SUMS")
	if want := program + ": OK\npriorityctl.cdx.json: OK"; sums != want {
		t.Errorf("sha256sum says %q, want %q", sums, want)
	}
	if said := run(t, dir, nil, filepath.Join(dir, program), "-version"); !strings.HasPrefix(said, "priorityctl "+version+",") {
		t.Errorf("it says %q", said)
	}

	text, err := os.ReadFile(filepath.Join(dir, "priorityctl.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var sbom struct {
		Format     string `json:"bomFormat"`
		Components []struct {
			PURL string `json:"purl"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &sbom); err != nil || sbom.Format != "CycloneDX" {
		t.Fatalf("the SBOM is %q, %v", sbom.Format, err)
	}
	named := make(map[string]bool)
	for _, component := range sbom.Components {
		named[component.PURL] = true
	}
	// What the program was built of, the SBOM names with its version.
	built := run(t, dir, nil, "go", "version", "-m", program)
	for line := range strings.Lines(built) {
		if field := strings.Fields(line); field[0] == "dep" || field[0] == "mod" {
			if purl := "pkg:golang/" + field[1] + "@" + field[2]; !named[purl] {
				t.Errorf("the SBOM does not name %s", purl)
			}
		}
	}
	if !strings.Contains(built, "github.com/redis/go-redis/v9") {
		t.Errorf("go version says %s", built)
	}
}

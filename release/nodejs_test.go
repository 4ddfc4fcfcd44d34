package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docpriority/priority/internal/redistest"
)

// nodeTools are what a user of the npm package has beside it.
var nodeTools = []string{
	"redis@6", "typescript@5.9", "@types/node@20", "esbuild@0.28", "jest@30", "publint@0.3", "@arethetypeswrong/cli@0.18",
}

// npmEnv keeps npm to what it is asked for.
var npmEnv = []string{"npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false"}

// nodeProgram is a user's program: ES module, CommonJS and TypeScript differ in how it begins.
const nodeProgram = `
async function main() {
  const store = join(createClient({ url: 'redis://ADDRESS' }), { timeout: 60_000 });
  const { level } = await store.next(String(process.pid));
  await store.close();
  return [level, typeof PriorityError];
}
`

const (
	imports  = "import { join, PriorityError } from 'docpriority';\nimport { createClient } from 'redis';\n"
	requires = "const { join, PriorityError } = require('docpriority');\nconst { createClient } = require('redis');\n"
	prints   = "main().then((told) => console.log(String(told)));\n"
	printed  = "1,function"
)

// nodePackage does with the tarball what users' tools do.
func (r *rehearsal) nodePackage(t *testing.T) {
	t.Parallel()
	npm, tarball := r.tarball(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "package.json"), "{}\n")
	install := exec.CommandContext(t.Context(), npm, append([]string{"install", "--ignore-scripts", "--no-save", tarball}, nodeTools...)...)
	install.Dir, install.Env = dir, append(install.Environ(), npmEnv...)
	if out, err := install.CombinedOutput(); err != nil {
		redistest.Skip(t, "npm install, which wants the npm registry: "+err.Error()+"\n"+string(out))
	}
	bin := func(name string) string { return filepath.Join(dir, "node_modules/.bin", name) }
	program := strings.ReplaceAll(nodeProgram, "ADDRESS", redistest.Start(t).Addr)
	write(t, filepath.Join(dir, "program.mjs"), imports+program+prints)
	write(t, filepath.Join(dir, "program.cjs"), requires+program+prints)
	write(t, filepath.Join(dir, "program.ts"), imports+program+prints)
	runs := func(t *testing.T, file string) {
		t.Helper()
		if got := run(t, dir, nil, "node", file); got != printed {
			t.Errorf("%s prints %q, want %q", file, got, printed)
		}
	}

	t.Run("node", func(t *testing.T) {
		runs(t, "program.mjs")
		runs(t, "program.cjs")
	})
	t.Run("esbuild", func(t *testing.T) {
		// Of node-redis, esbuild can make no ES module: it is CommonJS that requires what Node.js has.
		run(t, dir, nil, bin("esbuild"), "program.mjs", "--bundle", "--platform=node", "--format=esm", "--external:redis", "--outfile=bundle.mjs")
		run(t, dir, nil, bin("esbuild"), "program.mjs", "--bundle", "--platform=node", "--format=cjs", "--outfile=bundle.cjs")
		runs(t, "bundle.mjs")
		runs(t, "bundle.cjs")
	})
	t.Run("Jest", func(t *testing.T) {
		write(t, filepath.Join(dir, "level.test.js"), requires+program+"test('a level', async () => expect(String(await main())).toBe('"+printed+"'));\n")
		run(t, dir, nil, bin("jest"), "--testTimeout=60000", "level.test.js")
	})
	for _, module := range []string{"commonjs --moduleResolution node10", "nodenext", "esnext --moduleResolution bundler"} {
		t.Run("tsc --module "+module, func(t *testing.T) {
			args := strings.Fields("--strict --target es2022 --skipLibCheck --types node --outDir out --module " + module)
			run(t, dir, nil, bin("tsc"), append(args, "program.ts")...)
			if !strings.HasPrefix(module, "esnext") { // which a bundler would have to take further
				runs(t, "out/program.js")
			}
		})
	}
	t.Run("publint", func(t *testing.T) { run(t, dir, nil, bin("publint"), "--strict", "node_modules/docpriority") })
	t.Run("attw", func(t *testing.T) { run(t, dir, nil, bin("attw"), tarball) })
}

// tarball packs the npm package.
func (r *rehearsal) tarball(t *testing.T) (npm, tarball string) {
	t.Helper()
	npm = redistest.Find(t, "npm", "nodejs npm")
	r.packing.Lock()
	defer r.packing.Unlock()
	folder := filepath.Join(r.tree, "clients/nodejs")
	tarball = filepath.Join(folder, "docpriority-"+strings.TrimPrefix(version, "v")+".tgz")
	if _, err := os.Stat(tarball); err != nil {
		run(t, folder, npmEnv, npm, "ci", "--ignore-scripts", "--fetch-retries=5")
		run(t, folder, npmEnv, npm, "pack", "--silent")
	}
	return npm, tarball
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// consumer is a user who begins a program, and imports all that we have.
func (r *rehearsal) consumer(ctx context.Context) error {
	dir, err := r.begin(ctx, "consumer")
	if err != nil {
		return err
	}
	var program strings.Builder
	program.WriteString("package main\n\nimport (\n")
	for _, library := range r.libraries {
		fmt.Fprintf(&program, "\t_ %q\n", library.path)
	}
	program.WriteString(")\n\nfunc main() {}\n")
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program.String()), 0o644); err != nil {
		return err
	}
	_, err = r.user.run(ctx, dir, "vet", "./...")
	return err
}

// begin begins a program in a folder of its own, with go get of each module that
// has a library.
func (r *rehearsal) begin(ctx context.Context, name string) (dir string, err error) {
	if dir, err = r.folder(name); err != nil {
		return "", err
	}
	if _, err := r.user.run(ctx, dir, "mod", "init", "example.com/"+name); err != nil {
		return "", err
	}
	for _, module := range r.modules[:len(published)] {
		if !r.hasLibrary(module) {
			continue
		}
		if _, err := r.user.run(ctx, dir, "get", module.path()); err != nil {
			return "", err
		}
		got, err := r.user.run(ctx, dir, "list", "-m", "-f", "{{.Version}}", module.path())
		if err != nil {
			return "", err
		}
		if got != r.version {
			return "", fmt.Errorf("go get %s gets %s, not %s", module.path(), got, r.version)
		}
	}
	return dir, nil
}

// hasLibrary says whether users import anything of a module.
func (r *rehearsal) hasLibrary(m module) bool {
	return slices.ContainsFunc(r.libraries, func(library goPackage) bool { return library.module == m.path() })
}

// installs installs every command and runs it, and asks priorityctl which version it is.
func (r *rehearsal) installs(ctx context.Context) error {
	dir, err := r.folder("installs")
	if err != nil {
		return err
	}
	wanted := make(map[string][]string) // of each module
	for _, command := range r.commands {
		wanted[command.module] = append(wanted[command.module], command.path+"@latest")
	}
	for _, commands := range wanted {
		if _, err := r.user.run(ctx, dir, append([]string{"install"}, commands...)...); err != nil {
			return err
		}
	}
	for _, command := range r.commands {
		if _, err := output(ctx, dir, nil, filepath.Join(r.dir, "bin", path.Base(command.path)), "-h"); err != nil {
			return err
		}
	}
	said, err := output(ctx, dir, nil, filepath.Join(r.dir, "bin", "priorityctl"), "-version")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(said, "priorityctl "+r.version+",") {
		return errors.New("priorityctl of " + r.version + " says: " + said)
	}
	return nil
}

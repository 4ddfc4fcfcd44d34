package main

import (
	"context"
	"strings"
)

// goPackage is a package of a published module.
type goPackage struct{ path, name, module string }

// packages returns the libraries that users can import, and the commands.
func packages(ctx context.Context, t tree, modules []module) (libraries, commands []goPackage, err error) {
	for _, module := range modules[:len(published)] {
		said, err := output(ctx, t.at(module.folder), nil,
			"go", "list", "-f", "{{if .GoFiles}}{{.ImportPath}} {{.Name}}{{end}}", "./...")
		if err != nil {
			return nil, nil, err
		}
		for line := range strings.Lines(said) {
			path, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch one := (goPackage{path, name, module.path()}); {
			case strings.Contains(path+"/", "/internal/"):
			case name == "main":
				commands = append(commands, one)
			default:
				libraries = append(libraries, one)
			}
		}
	}
	return libraries, commands, nil
}

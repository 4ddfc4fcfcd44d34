package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version says which priorityctl this is, and what it was built by. It is the module's
// version from go install, that of the commit where it was built in a repository,
// and else (devel).
func version() string {
	of := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		of = info.Main.Version
	}
	return fmt.Sprintf("priorityctl %s, %s %s/%s", of, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

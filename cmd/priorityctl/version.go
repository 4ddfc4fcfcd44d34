package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version names this priorityctl, and the Go that built it. The version is the
// module's after go install, the commit's pseudo-version if it was built in a
// repository, or (devel).
func version() string {
	release := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		release = info.Main.Version
	}
	return fmt.Sprintf("priorityctl %s, %s %s/%s", release, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

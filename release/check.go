package main

import "context"

// check says whether the tree can be released, and all that is wrong. It works in a
// copy: the tree stays as it is.
func check(ctx context.Context, t tree) error {
	var r *rehearsal
	defer func() {
		if r != nil {
			r.remove()
		}
	}()
	return steps(
		step{"go.mod files, versions and the workspace", func() error { return t.rules(ctx) }},
		step{"release a copy of the tree", func() (err error) { r, err = release(ctx, t); return err }},
		step{"licences of what the published modules depend on", func() error { return r.licences(ctx) }},
		step{"changes of the Go interface since the last version", func() error { return r.compatible(ctx) }},
		step{"known vulnerabilities", func() error { return r.vulnerabilities(ctx) }},
		step{"go doc leaves the tree as it is", func() error { return r.documented(ctx) }},
	)
}

package main

import (
	"context"
	_ "embed"
	"fmt"
)

// debianPython is the one whose packages Debian installs.
const debianPython = "/usr/bin/python3"

//go:embed wheels.py
var wheels string

// python packs the Python client, and returns the environment of somebody whose pip
// finds it. All else that pip finds is what Debian has installed, made into wheels:
// no index has to be reached.
func (r *rehearsal) python(ctx context.Context) ([]string, error) {
	dir, err := r.folder("wheels")
	if err != nil {
		return nil, err
	}
	// The check would miss what Debian's hatchling wants for editable installs only.
	if _, err := output(ctx, r.copied.at("clients/python"), nil, debianPython, "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check", "--outdir", dir); err != nil {
		return nil, fmt.Errorf("%w\napt-get install python3-build python3-hatchling python3-venv", err)
	}
	if _, err := output(ctx, r.dir, nil, debianPython, "-I", "-c", wheels, dir, "python3-celery", "python3-redis"); err != nil {
		return nil, fmt.Errorf("%w\napt-get install python3-celery python3-redis", err)
	}
	if err := r.user.add("python3", debianPython); err != nil {
		return nil, err
	}
	return []string{
		"PIP_NO_INDEX=1",
		"PIP_FIND_LINKS=" + dir,
		"PYTHONPATH=",
	}, nil
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/docpriority/priority/lab/internal/pictures"
)

const picturesHelp = `Pictures draws the pictures of docs/ by what the module does, and
docs/performance.png by the peers' table of lab/RESULTS.md.
`

func newPictures(flags *flag.FlagSet) (action, string) {
	root := flags.String("root", ".", "the repository's `folder`")
	return func(_ context.Context, with terminal, args []string) error {
		if len(args) > 0 {
			return wrongCall(errors.New("it takes no argument"))
		}
		for name, draw := range pictureFiles(*root) {
			drawn, err := draw()
			if err == nil {
				err = os.WriteFile(filepath.Join(*root, "docs", name), drawn, 0o644)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			fmt.Fprintf(with.stdout, "docs/%s: %d bytes\n", name, len(drawn))
		}
		return nil
	}, picturesHelp
}

// pictureFiles are what draws the files of docs.
func pictureFiles(root string) map[string]func() ([]byte, error) {
	return map[string]func() ([]byte, error){
		"overview.png": pictures.Overview,
		"flood.png":    pictures.Flood,
		"rule.png":     pictures.Rule,
		"load.png":     pictures.Load,
		"turns.png":    pictures.Turns,
		"levels.png":   pictures.Levels,
		"performance.png": func() ([]byte, error) {
			bars, err := serverTimes(filepath.Join(root, "lab", "RESULTS.md"))
			if err != nil {
				return nil, err
			}
			return pictures.Bars("Server time of one decision on one key", "to a script of INCR and PEXPIRE; less is better", bars,
				func(name string) bool { return strings.HasPrefix(name, "priority") })
		},
	}
}

// serverTimes reads the figures of the peers, such as "1.13 (1.07–1.15)".
func serverTimes(file string) (bars []pictures.Bar, err error) {
	results, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	inTable := false
	for row := range strings.Lines(string(results)) {
		cells := strings.Split(row, "|")
		switch {
		case strings.HasPrefix(row, "| contender ") && strings.Contains(row, "server time"):
			inTable = true
		case len(cells) < 4:
			inTable = false
		case inTable && !strings.HasPrefix(row, "|--"):
			bar := pictures.Bar{Name: strings.TrimSpace(cells[1])}
			if _, err := fmt.Sscanf(strings.TrimSpace(cells[2]), "%f (%f–%f)", &bar.Median, &bar.Least, &bar.Most); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", file, bar.Name, err)
			}
			bars = append(bars, bar)
		}
	}
	if len(bars) == 0 {
		return nil, fmt.Errorf("%s has no table of the peers", file)
	}
	return bars, nil
}

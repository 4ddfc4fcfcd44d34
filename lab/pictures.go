package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/docpriority/priority/lab/internal/pictures"
)

const picturesHelp = `Pictures draws the pictures of docs/ by what the module does.
`

func newPictures(flags *flag.FlagSet) (action, string) {
	root := flags.String("root", ".", "the repository's `folder`")
	return func(_ context.Context, with terminal, args []string) error {
		if len(args) > 0 {
			return wrongCall(errors.New("it takes no argument"))
		}
		for name, draw := range pictureFiles {
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
var pictureFiles = map[string]func() ([]byte, error){
	"overview.png": pictures.Overview,
	"flood.png":    pictures.Flood,
	"rule.png":     pictures.Rule,
	"load.png":     pictures.Load,
	"turns.png":    pictures.Turns,
	"levels.png":   pictures.Levels,
}

package main

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
)

func registerJSON(command *cobra.Command) {
	command.Flags().Bool("json", false, "print JSON, one object a line")
}

// writeJSON writes an object in one line.
func writeJSON(w io.Writer, object any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(object)
}

// writeAll writes objects, one a line.
func writeAll[T any](w io.Writer, all []T) error {
	for _, object := range all {
		if err := writeJSON(w, object); err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/spf13/cobra"
)

func registerJSON(command *cobra.Command) {
	command.Flags().Bool("json", false, "print JSON, one object a line")
}

// writeJSON writes an object in one line.
func writeJSON(w io.Writer, object any) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(object); err != nil {
		return err
	}
	var out strings.Builder
	for _, r := range line.String() {
		if unicode.IsGraphic(r) || r == '\n' {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) { // a terminal would obey it
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
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

package main

import (
	"encoding/json"
	"io"
)

// writeJSON writes an object in one line.
func writeJSON(w io.Writer, object any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(object)
}

//go:build !race

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The documents show what the module does now. On another processor the last bit of a curve
// may differ.
func TestThePicturesAreTrue(t *testing.T) {
	for name, draw := range pictureFiles("..") {
		drawn, err := draw()
		if err != nil {
			t.Fatal(err)
		}
		if held, err := os.ReadFile(filepath.Join("..", "docs", name)); err != nil || !bytes.Equal(held, drawn) {
			t.Errorf("docs/%s shows something else (%v): go run ./lab pictures", name, err)
		}
	}
}

//go:build !race

package main

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"
)

// The documents show what the module does now. They are compared by pixel, for how these are packed
// depends on the version of Go. On another processor the last bit of a curve may differ.
func TestThePicturesAreTrue(t *testing.T) {
	for name, draw := range pictureFiles {
		drawn, err := draw()
		if err != nil {
			t.Fatal(err)
		}
		held, err := os.ReadFile(filepath.Join("..", "docs", name))
		if err != nil || !samePixels(t, held, drawn) {
			t.Errorf("docs/%s shows something else (%v): go run ./lab pictures", name, err)
		}
	}
}

func samePixels(t *testing.T, a, b []byte) bool {
	t.Helper()
	var images [2]image.Image
	for i, file := range [][]byte{a, b} {
		var err error
		if images[i], err = png.Decode(bytes.NewReader(file)); err != nil {
			t.Fatal(err)
		}
	}
	if images[0].Bounds() != images[1].Bounds() {
		return false
	}
	for y := range images[0].Bounds().Dy() {
		for x := range images[0].Bounds().Dx() {
			if images[0].At(x, y) != images[1].At(x, y) {
				return false
			}
		}
	}
	return true
}

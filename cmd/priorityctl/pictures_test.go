package main

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"flag"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/redistest"
)

var update = flag.Bool("update", false, "take the pictures in docs again; needs chromium and two minutes")

// With -update it takes the pictures that docs show again.
func TestPictures(t *testing.T) {
	if *update {
		takePictures(t, filepath.Join("..", "..", "docs"))
	}
}

// takePictures shows what an operator sees of a small fleet that has worked for a minute.
func takePictures(t *testing.T, docs string) {
	server := redistest.Start(t, "--appendonly", "yes")
	address, _, interrupt := servingOn(t, server.Addr, io.Discard)
	defer interrupt()
	operatorOn(t, "-redis", "redis://"+server.Addr).ok("override", "set", "dentist", "-level", "1", "-for", "2h", "-why", "an audit today", "-by", "mary")
	operate(t, server, 70*time.Second, func() {
		term := openTerminal(t, 80, 26, "PRIORITY_REDIS_URL=redis://"+server.Addr)
		for _, look := range []struct{ picture, command, awaited string }{{"get.png", "get archive", "status 0"}, {"top.png", "top", "notary"}} {
			term.typed("priorityctl " + look.command)
			term.await(look.awaited)
			lines, _, _ := strings.Cut(term.screen("-e"), "status 0")
			file := filepath.Join(t.TempDir(), "screen.html")
			if err := os.WriteFile(file, []byte(inHTML(lines)), 0o600); err != nil {
				t.Fatal(err)
			}
			photograph(t, "file://"+file, filepath.Join(docs, look.picture), 700, 20*strings.Count(lines, "\n")+24)
		}
		for _, look := range []struct {
			picture, path string
			height        int
		}{{"page.png", "", 726}, {"customer.png", "customer?c=archive", 743}} {
			redistest.Await(t, "the page has looked at everything", func() bool {
				_, body := get(t, address+look.path, "")
				return strings.Contains(body, "archive")
			})
			photograph(t, address+look.path, filepath.Join(docs, look.picture), 1080, look.height)
		}
	})
}

// operate has three workers take a document a time, earlier levels first. Each customer
// sends one now and then, archive sends more than they can take, and museum many at once.
// Then it looks, while they work on.
func operate(t *testing.T, server *redistest.Server, length time.Duration, look func()) {
	type document struct{ customer, id string }
	var levels [10]chan document
	for i := range levels {
		levels[i] = make(chan document, 100_000)
	}
	ctx, workers := t.Context(), make([]*fleet.Member, 3)
	submit := func(member *fleet.Member, customer string, documents int) {
		for range documents {
			d := document{customer, rand.Text()}
			decision, err := member.Submit(ctx, d.customer, d.id, 0)
			if err != nil {
				t.Error(err)
			}
			levels[decision.Level] <- d
		}
	}
	ended := make(chan struct{})
	var working sync.WaitGroup
	defer working.Wait()
	defer close(ended)
	every := func(pause time.Duration, do func()) {
		working.Go(func() {
			for ticks := time.Tick(pause); ; {
				select {
				case <-ticks:
					do()
				case <-ended:
					return
				}
			}
		})
	}
	for i := range workers {
		member, err := fleet.Join(server.Client(), &fleet.Options{Name: fmt.Sprint("worker-", i+1)})
		if err != nil {
			t.Fatal(err)
		}
		workers[i] = member
		every(100*time.Millisecond, func() {
			for _, level := range levels {
				select {
				case d := <-level:
					time.Sleep(80 * time.Millisecond)
					_, _ = member.Done(ctx, d.customer, d.id, 80*time.Millisecond)
					return
				default:
				}
			}
		})
	}
	for i, customer := range []string{"bakery", "clinic", "dentist", "embassy", "notary"} {
		every(time.Duration(i+1)*2*time.Second, func() { submit(workers[i%3], customer, 1) })
	}
	every(2*time.Second, func() { submit(workers[0], "archive", 100) })
	time.Sleep(length - 10*time.Second)
	submit(workers[1], "museum", 150)
	submit(workers[2], "florist", 2)
	time.Sleep(10 * time.Second)
	look()
}

// inHTML is a terminal's screen: bold, reverse and colors are classes.
func inHTML(screen string) string {
	text := regexp.MustCompile(`\x1b\[([\d;]*)m`).ReplaceAllStringFunc(html.EscapeString(screen), func(sequence string) string {
		return `</b><b class="s` + strings.Trim(sequence, "\x1b[m") + `">`
	})
	return `<!doctype html><meta charset="utf-8"><style>body { margin: 12px; background: #fff; color: #1b1d20 }
pre { margin: 0; font: 14px/20px "DejaVu Sans Mono" } b { font-weight: 400 } .s1 { font-weight: 700 } .s7 { background: #dcdfe3 } .s36 { background: #0067a5; color: #0067a5 } .s31 { color: #b3261e }</style><pre><b>` + text + `</b></pre>`
}

// photograph writes a PNG of a page, in the 24 colors that it has most.
func photograph(t *testing.T, address, file string, width, height int) {
	t.Helper()
	shot := filepath.Join(t.TempDir(), "shot.png")
	chromium := exec.Command(redistest.Find(t, "chromium", "chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--force-device-scale-factor=1.4", "--user-data-dir="+t.TempDir(), fmt.Sprintf("--window-size=%d,%d", width, height), "--screenshot="+shot, address)
	if out, err := chromium.CombinedOutput(); err != nil {
		t.Fatalf("chromium: %v\n%s", err, out)
	}
	taken, err := os.Open(shot)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	picture, err := png.Decode(taken)
	if err != nil {
		t.Fatal(err)
	}
	bounds, pixels := picture.Bounds(), make(map[color.Color]int)
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			pixels[picture.At(x, y)]++
		}
	}
	palette := color.Palette(slices.SortedFunc(maps.Keys(pixels), func(a, b color.Color) int { return cmp.Compare(pixels[b], pixels[a]) }))
	small := image.NewPaletted(bounds, palette[:min(len(palette), 24)])
	draw.Draw(small, bounds, picture, bounds.Min, draw.Src)
	var encoded bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&encoded, small)
	if err == nil {
		err = os.WriteFile(file, encoded.Bytes(), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

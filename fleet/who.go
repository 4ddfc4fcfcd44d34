package fleet

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// whoIs fills in what a process knows about itself.
func whoIs(name string) Report {
	host, _ := os.Hostname()
	who := Report{
		ID: strings.ToLower(rand.Text()[:16]), Language: "go", Version: version(),
		Host: plainText(host, maxNameBytes), PID: os.Getpid(), Overrides: true,
	}
	who.Name = plainText(cmp.Or(name, fmt.Sprintf("%s-%d", who.Host, who.PID)), maxNameBytes)
	return who
}

// plainText returns a printable text, cut to that many bytes.
func plainText(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	for len(text) > most {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

const module = "github.com/docpriority/priority"

// version returns the version of the module in this program.
func version() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return "devel"
	}
	modules := append(slices.Clone(info.Deps), &info.Main)
	i := slices.IndexFunc(modules, func(m *debug.Module) bool { return m.Path == module })
	if i < 0 || !strings.HasPrefix(modules[i].Version, "v") {
		return "devel"
	}
	return plainText(modules[i].Version[1:], maxNameBytes)
}

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

var versionLine = regexp.MustCompile(`^priorityctl \S+, go1\.\S+ \w+/\w+\n$`)

func TestPriorityctlSaysWhichOneItIs(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"-version", "--version", "-v"} {
		if text := succeeded(t, "", flag); !versionLine.MatchString(text) {
			t.Errorf("%s prints %q", flag, text)
		}
	}
	program := installed(t)
	text, err := exec.Command(program, "-version").Output()
	if err != nil || !versionLine.Match(text) {
		t.Errorf("installed, it prints %q, %v", text, err)
	}
	// What go install has written down is what it says.
	info, err := exec.Command("go", "version", "-m", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	module := regexp.MustCompile(`\n\tmod\t\S+\t(\S+)`).FindStringSubmatch(string(info))
	if module == nil || !strings.HasPrefix(string(text), "priorityctl "+module[1]+", ") {
		t.Errorf("it prints %q, and is %q", text, module)
	}
}

// installed returns the path of the program as go install makes it.
func installed(t *testing.T) string {
	t.Helper()
	path, err := install()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var install = sync.OnceValues(func() (path string, err error) {
	bin := filepath.Join(scratch, "bin")
	command := exec.Command("go", "install", ".")
	command.Env = append(os.Environ(), "GOBIN="+bin)
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install: %w\n%s", err, out)
	}
	return filepath.Join(bin, "priorityctl"), nil
})

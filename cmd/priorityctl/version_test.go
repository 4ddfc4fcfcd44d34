package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var versionLine = regexp.MustCompile(`^priorityctl \S+, go1\.\S+ \w+/\w+\n$`)

func TestPriorityctlSaysWhichOneItIs(t *testing.T) {
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
	command := exec.Command("go", "install", ".")
	bin := t.TempDir()
	command.Env = append(os.Environ(), "GOBIN="+bin)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("go install: %v\n%s", err, out)
	}
	return filepath.Join(bin, "priorityctl")
}

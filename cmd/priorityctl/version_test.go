package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var versionLine = regexp.MustCompile(`^priorityctl \S+, go1\.\S+ \w+/\w+\n$`)

func TestPriorityctlSaysWhichOneItIs(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"-version", "--version", "-v"} {
		if text := alone(t).told(flag); !versionLine.MatchString(text) {
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

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/docpriority/priority/internal/redistest"
)

// terminal is a real one, of tmux, with a shell in it that knows priorityctl.
type terminal struct {
	t      *testing.T
	tmux   string
	socket string
	last   string // screen that await has looked at
}

func openTerminal(t *testing.T, columns, lines int, environment ...string) *terminal {
	t.Helper()
	term := &terminal{t: t, tmux: redistest.Find(t, "tmux", "tmux")}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// A path of its own: a socket's path must be short.
	dir, err := os.MkdirTemp("", "tmux")
	if err != nil {
		t.Fatal(err)
	}
	term.socket = filepath.Join(dir, "s")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last screen that was looked at:\n%s", term.last)
		}
		_ = exec.Command(term.tmux, "-S", term.socket, "kill-server").Run()
		_ = os.RemoveAll(dir)
	})
	script := filepath.Join(dir, "rc")
	functions := fmt.Sprintf("PS1='$ '\npriorityctl() { PRIORITYCTL_TEST_RUN=1 '%s' \"$@\"; echo \"status $?\"; }\n", program)
	if err := os.WriteFile(script, []byte(functions), 0o600); err != nil {
		t.Fatal(err)
	}
	shell := "exec env LC_ALL=C.UTF-8 ENV=" + script + " " + strings.Join(environment, " ") + " sh -i"
	term.do("-f", "/dev/null", "-u", "new-session", "-d", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(lines), shell)
	term.await("$")
	return term
}

func (term *terminal) do(args ...string) string {
	term.t.Helper()
	out, err := exec.Command(term.tmux, append([]string{"-S", term.socket}, args...)...).CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// screen is what the terminal shows, with escape sequences if so wanted.
func (term *terminal) screen(options ...string) string {
	term.t.Helper()
	return term.do(append([]string{"capture-pane", "-p"}, options...)...)
}

// await waits until the screen shows something. Tmux leaves out blanks at the ends
// of lines.
func (term *terminal) await(want string) string {
	term.t.Helper()
	redistest.Await(term.t, fmt.Sprintf("the screen shows %q", want), func() bool {
		term.last = term.screen()
		return strings.Contains(term.last, want)
	})
	return term.last
}

func (term *terminal) typed(text string) {
	term.t.Helper()
	term.do("send-keys", "-l", text)
	term.do("send-keys", "Enter")
}

// ask clears the screen, so that nothing of an earlier command is awaited, and
// types a command.
func (term *terminal) ask(command string) {
	term.t.Helper()
	term.do("send-keys", "-R")
	term.typed(command)
}

// restored checks that a program has left the terminal as it was.
func (term *terminal) restored(status string) {
	term.t.Helper()
	term.await(status + "\n$\n")
	if term.do("display-message", "-p", "#{alternate_on} #{cursor_flag}") != "0 1\n" {
		term.t.Error("the alternate screen is still on, or the cursor hidden")
	}
	term.typed("stty -a | grep -c -w -e '-icanon' -e '-echo'; echo end")
	term.await("\n0\nend\n")
}

// Keys, a small terminal, and a Redis that is stopped.
func TestTop_Terminal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	member := join(t, server.Client(), "w1")
	submit(t, member, "archive", 300)
	submit(t, member, "bakery", 3)
	server.Client().Persist(t.Context(), "priority:{bakery}:pending")
	term := openTerminal(t, 80, 24)
	term.ask("priorityctl top -interval 200ms -redis redis://" + server.Addr)
	screen := term.await("bakery")
	fits(t, screen)
	for _, want := range []string{"1 worker here; 303 documents", "LEVEL      DOCS   PENDING", "LAST  NEXT        LOAD  DOCUMENTS  PENDING     OLDEST  CUSTOMER", "q: quit"} {
		if !strings.Contains(screen, want) {
			t.Errorf("no %q on\n%s", want, screen)
		}
	}
	press := func(keys ...string) { term.do(append([]string{"send-keys"}, keys...)...) }
	press("?")
	if screen := term.await("say why the customer has this level"); strings.Count(screen, "\n") > 24 || !strings.Contains(screen, "arrives now") {
		t.Errorf("the help is cut:\n%s", screen)
	}
	press("Escape")
	term.await("LAST  NEXT")
	press("Enter")
	if screen := term.await("archive waits behind"); !strings.Contains(screen, "The flood began at") && !strings.Contains(screen, "fewer") {
		t.Errorf("the explanation is cut:\n%s", screen)
	}
	term.do("resize-window", "-x", "80", "-y", "8")
	press("Down", "Down", "Down", "Down", "Down", "Down", "Down", "Down")
	term.await("archive waits behind")
	term.do("resize-window", "-x", "80", "-y", "24")
	press("Escape")
	term.await("LAST  NEXT")
	press("s", "s", "s", "s", "s")
	term.await("sorted by name")
	press("/", "B", "A", "X", "BSpace")
	if screen := term.await("/BA█"); strings.Contains(screen, "archive") || !strings.Contains(screen, "bakery") || !strings.Contains(screen, "303 documents") {
		t.Errorf("the filter shows\n%s", screen)
	}
	press("Escape")
	term.await("archive")
	for _, size := range []string{"1x1", "5x2", "40x12", "200x60", "80x24"} {
		columns, lines, _ := strings.Cut(size, "x")
		term.do("resize-window", "-x", columns, "-y", lines)
	}
	server.Kill()
	if screen := term.await("looking again: "); !strings.Contains(screen, "archive") {
		t.Errorf("what was known is gone:\n%s", screen)
	}
	press("q")
	term.restored("status 0")
}

func TestTop_Terminated(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	term := openTerminal(t, 80, 24)
	term.ask("PRIORITYCTL_TEST_RUN=1 sh -c 'echo $$ >" + term.socket + ".pid; exec " + os.Args[0] + " top -redis redis://" + server.Addr + "'; echo status $?")
	term.await("q: quit")
	pid := 0
	text, err := os.ReadFile(term.socket + ".pid")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	term.restored("status 130")
}

func TestReset_Asks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	count(t, client, map[string]int{"acme": 30, "bakery": 5})
	term := openTerminal(t, 80, 24)
	command := "priorityctl reset acme bakery -redis redis://" + server.Addr
	held := func() int64 {
		return client.Exists(t.Context(), "priority:{acme}:count", "priority:{bakery}:count").Val()
	}
	for _, answer := range []string{"", "no", "C-c", "y"} {
		term.ask(command)
		screen := term.await("Reset 2 customers? [y/N]")
		for _, want := range []string{server.Addr + ", with the prefix priority, this forgets:", "  acme: count -29, level 9\n", "  bakery: count -4, level 2\n"} {
			if !strings.Contains(screen, want) {
				t.Errorf("no %q in\n%s", want, screen)
			}
		}
		want, left := "status 1\n", int64(2)
		switch answer {
		case "C-c":
			want = "status 130"
			term.do("send-keys", "C-c")
		case "y":
			want, left = "status 0", 0
			term.typed(answer)
		default:
			term.typed(answer)
		}
		if term.await(want); held() != left {
			t.Errorf("answer %q leaves %d keys", answer, held())
		}
	}
}

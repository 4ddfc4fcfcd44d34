package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
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

const topScreen = `redis://ADDRESS  prefix priority  policy the module's default
1 worker: 36 documents in the last 1m

LEVEL  DOCUMENTS
    1          7  ███████████████████████████████████████████████
    2          4  ███████████████████████████
    3          2  █████████████
    4          2  █████████████
    5          2  █████████████
    6          2  █████████████
    7          2  █████████████
    8          6  ████████████████████████████████████████
    9          9  █████████████████████████████████████████████████████████████

LAST  NEXT       COUNT  DOCUMENTS   RESETS IN  CUSTOMER
   9     9         -29         30       never  acme
   2     3          -4          5       never  bakery
   1     1           0          1       never  first





q: quit  ?: help  Enter: why  s: sorted by documents  /: filter
`

// It is looked at on 80 columns and 24 lines, then on fewer; and all keys are typed.
func TestTopFitsTheTerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	count(t, client, map[string]int{"acme": 30, "bakery": 5, "first": 1})
	for _, customer := range []string{"acme", "bakery", "first"} {
		client.Persist(t.Context(), "priority:{"+customer+"}:count")
	}
	reported(t, client, counting())
	term := openTerminal(t, 80, 24)
	// An hour: it looks once only.
	term.ask("priorityctl top -interval 1h -redis redis://" + server.Addr)
	term.await("acme")
	if got, want := term.screen(), strings.Replace(topScreen, "ADDRESS", server.Addr, 1); got != want {
		t.Errorf("the screen shows\n%s\nand not\n%s", got, want)
	}
	if term.do("display-message", "-p", "#{alternate_on}") != "1\n" {
		t.Error("it draws over what the terminal showed")
	}
	if !strings.Contains(term.screen("-e"), "\x1b[36m") {
		t.Error("the bars have no colour")
	}

	press := func(keys ...string) { term.do(append([]string{"send-keys"}, keys...)...) }
	press("?")
	fitsIn(t, 80, term.await("Enter       say why"))
	press("x")
	press("Down", "Enter")
	fitsIn(t, 80, term.await("bakery waits behind level 1"))
	press("Escape")
	term.await("RESETS IN")
	press("s", "s", "s", "s", "s")
	term.await("sorted by name")
	press("/", "A", "C", "X", "BSpace")
	if screen := term.await("/AC█"); strings.Contains(screen, "bakery") || !strings.Contains(screen, "acme") {
		t.Errorf("the filter shows\n%s", screen)
	}
	press("Enter")
	term.await(`/: filter "AC"`)
	press("Enter")
	term.await("acme is slow because of 30 documents")
	press("Escape")
	term.await("RESETS IN")
	press("Escape")
	term.await("first")

	term.do("resize-window", "-x", "40", "-y", "12")
	screen := term.await("NEXT       COUNT  DOCUMENTS  CUSTOMER")
	fitsIn(t, 40, screen)
	for _, want := range []string{"prefix priorit…", "    9          9  ███████", "   9         -29         30  acme", "\nq: quit"} {
		if !strings.Contains(screen, want) {
			t.Errorf("no %q on 40 columns:\n%s", want, screen)
		}
	}
	for _, size := range []string{"1x1", "5x2", "200x60", "80x24"} {
		columns, lines, _ := strings.Cut(size, "x")
		term.do("resize-window", "-x", columns, "-y", lines)
	}
	term.await("LAST  NEXT       COUNT  DOCUMENTS   RESETS IN  CUSTOMER")
	press("q")
	term.restored("status 0")
}

// Reports come while it looks, and Redis is stopped.
func TestTopIsLive(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	term := openTerminal(t, 80, 24, "NO_COLOR=1")
	term.ask("priorityctl top -interval 100ms -timeout 500ms -redis redis://" + server.Addr)
	term.await("no worker has reported in the last 30s")
	count(t, client, map[string]int{"acme": 30})
	reported(t, client, counting())
	term.await("█")
	if screen := term.screen("-e"); strings.Contains(screen, "\x1b[36m") {
		t.Errorf("there is colour in spite of NO_COLOR:\n%q", screen)
	}
	server.Kill()
	if screen := term.await("looking again: "); !strings.Contains(screen, "acme") {
		t.Errorf("what was known is gone:\n%s", screen)
	}
	server.Restart()
	term.await("no worker has reported in the last 30s")
	term.do("send-keys", "C-c")
	term.restored("status 0")
}

func TestTopRestoresTheTerminalWhenTerminated(t *testing.T) {
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

const getScreen = `customer  acme
rule      by load
next      level 8 of 1 to 9: load > 32,768, ≥ 256 pending
load      512.0 recent × 182 pending × 1.40 cost = 130,458
pending   3,000, the oldest for 1s; the newest has level 8
          2,819 of them beyond the last load, which do not count
done      5.2s after they were submitted, on average
lease     3m: documents not done by then no longer count
key       priority:{acme}:pending
policy    the module's default

acme waits behind levels 1 to 7: the next document gets level 8. Its load,
itself included, is 130,458: 512 or more documents submitted recently × 182
pending × 1.40 times the usual cost. It is the 2,820th pending beyond the last
load, where floods take turns. With 137 fewer of those that count, it gets
level 5.
status 0
`

func TestGetFitsTheTerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	submit(t, client, "acme", 3000)
	term := openTerminal(t, 80, 24)
	term.ask("priorityctl get acme -redis redis://" + server.Addr)
	// Time passes while it is looked at.
	ages := regexp.MustCompile(`for [\d.]+m?s;`)
	if screen := term.await("status 0"); !strings.Contains(ages.ReplaceAllString(screen, "~"), ages.ReplaceAllString(getScreen, "~")) {
		t.Errorf("the screen shows\n%s\nand not\n%s", screen, getScreen)
	}
}

func TestResetAsksOnATerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	count(t, client, map[string]int{"acme": 30, "bakery": 5})
	term := openTerminal(t, 80, 24)
	command := "priorityctl reset acme bakery -redis redis://" + server.Addr
	held := func() int64 {
		return client.Exists(t.Context(), "priority:{acme}:count", "priority:{bakery}:count").Val()
	}

	for _, answer := range []string{"", "n", "no", "maybe"} {
		term.ask(command)
		screen := term.await("Reset 2 customers? [y/N]")
		for _, want := range []string{server.Addr + ", with the prefix priority, this forgets:", "  acme: count -29, level 9\n", "  bakery: count -4, level 2\n"} {
			if !strings.Contains(screen, want) {
				t.Errorf("no %q in\n%s", want, screen)
			}
		}
		term.typed(answer)
		if term.await("status 1"); !strings.Contains(term.screen(), "nothing was changed") || held() != 2 {
			t.Errorf("answer %q, %d keys:\n%s", answer, held(), term.screen())
		}
	}
	term.ask(command)
	term.await("[y/N]")
	term.do("send-keys", "C-c")
	if term.await("status 130"); held() != 2 {
		t.Errorf("Ctrl-C, %d keys", held())
	}
	term.ask(command)
	term.await("[y/N]")
	term.typed("y")
	if term.await("status 0"); held() != 0 || !strings.Contains(term.screen(), "acme: reset (count -29, level 9)") {
		t.Errorf("y, %d keys:\n%s", held(), term.screen())
	}
	term.ask("priorityctl reset acme -redis redis://" + server.Addr + " </dev/null")
	term.await("status 2")
}

// Who still sends would be counted as a new customer.
func TestForgetWarnsOfWhoStillSends(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	count(t, client, map[string]int{"globex": 3})
	report(t, client, fleet.Report{ID: "w1", Name: "w1", Levels: 9, Overrides: true, Busiest: []fleet.Busy{{Customer: "globex", Documents: 38, Rule: priority.ByCount, Level: 1}}})
	term := openTerminal(t, 80, 24)
	term.ask("priorityctl forget globex -why x -redis redis://" + server.Addr)
	if screen := term.await("Forget 1 customer? [y/N]"); !strings.Contains(screen, "priorityctl: globex sent 38 documents in the last minute: stop them first") {
		t.Errorf("got\n%s", screen)
	}
	term.typed("n")
	term.await("status 1")
}

package main

import (
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A hook of git, and "git rebase --exec", say in variables which repository git is in.
// The copies of the tree are others.
func TestTheRepositoryOfAHookIsNotWrittenTo(t *testing.T) {
	t.Parallel()
	tree, another := newTree(t), newTree(t)
	state := func() string {
		return strings.Join([]string{
			mustGit(t, another, "for-each-ref"), mustGit(t, another, "reflog"),
			mustGit(t, another, "worktree", "list"), readText(t, another, ".git/config"), mustGit(t, another, "ls-files", "--stage"),
		}, "\n")
	}
	before := state()
	command := programIn(t, tree.dir, "tidy")
	command.Env = append(command.Env, "GIT_DIR="+another.at(".git"), "GIT_INDEX_FILE="+another.at(".git/index"))
	if said, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	if after := state(); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
}

// What is tracked is released, whatever its maintainer's git ignores elsewhere.
func TestAnIgnoreFileOfTheMaintainerChangesNoSum(t *testing.T) {
	tree := newTree(t)
	if err := tree.write("page/page.svg", "<svg/>\n"); err != nil {
		t.Fatal(err)
	}
	commitAll(t, tree)
	sums := func() string {
		if err := prepare(t.Context(), tree, "v0.1.0", day); err != nil {
			t.Fatal(err)
		}
		return readText(t, tree, "cmd/priorityctl/go.sum")
	}
	want := sums()
	mustGit(t, tree, "reset", "--quiet", "--hard")
	mustGit(t, tree, "clean", "--quiet", "--force", "-d")
	ignored, config := filepath.Join(t.TempDir(), "ignored"), filepath.Join(t.TempDir(), "config")
	for file, text := range map[string]string{ignored: "*.svg\n", config: "[core]\n\texcludesFile = " + ignored + "\n"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GIT_CONFIG_GLOBAL", config)
	if got := sums(); got != want {
		t.Errorf("the sums are\n%s\nand without the ignore file\n%s", got, want)
	}
}

func TestAnotherRepositoryInTheTreeIsNotReleased(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	mustGit(t, tree, "worktree", "add", "--quiet", "--detach", "linked")
	mustGit(t, tree, "clone", "--quiet", ".", "cloned")
	files, err := tree.files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasPrefix(file, "linked") || strings.HasPrefix(file, "cloned") {
			t.Errorf("%s is taken for a file of the tree", file)
		}
	}
	if err := tidy(t.Context(), tree); err != nil {
		t.Error(err)
	}
}

func TestASignalLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for _, one := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(one.String(), func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(one) { // as under nohup: a program that is started would ignore it too
				heard := make(chan os.Signal, 1)
				signal.Notify(heard, one)
				t.Cleanup(func() { signal.Stop(heard) })
			}
			temporary := t.TempDir()
			command := programIn(t, newTree(t).dir, "tidy")
			command.Env = append(command.Env, "TMPDIR="+temporary)
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			for {
				if made, err := filepath.Glob(filepath.Join(temporary, "release-*")); err != nil || len(made) > 0 {
					break
				}
				time.Sleep(time.Millisecond) // until there is something to leave behind
			}
			if err := command.Process.Signal(one); err != nil {
				t.Fatal(err)
			}
			if err := command.Wait(); command.ProcessState.ExitCode() != 1 {
				t.Errorf("it ends with %v", err)
			}
			if left, err := filepath.Glob(filepath.Join(temporary, "release-*")); err != nil || len(left) > 0 {
				t.Errorf("it leaves %v, error %v", left, err)
			}
		})
	}
}

// Nobody waits for minutes to hear that a port is taken.
func TestATakenPortIsToldFirst(t *testing.T) {
	tree := newTree(t)
	edit(t, tree, "examples/queues/queues.go", "import _ \""+rootPath+"\"\n", "") // not tidy
	if listener, err := net.Listen("tcp", redisAddress); err == nil {             // or it is taken already
		defer listener.Close()
	}
	wantError(t, rehearse(t.Context(), tree), "the documents want an empty Redis there")
	wantError(t, start(t.Context(), tree, tree.at("README.md")), "the documents want an empty Redis there")
}

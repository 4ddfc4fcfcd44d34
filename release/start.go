package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// start releases a copy of the tree, and does with it what a page says.
func start(ctx context.Context, t tree, page string) error {
	if _, err := os.Stat(page); err != nil {
		return wrongCall{err}
	}
	if err := portIsFree(); err != nil {
		return err
	}
	r, err := release(ctx, t)
	if err != nil {
		return err
	}
	defer r.remove()
	return r.start(ctx, page)
}

// start does what a page says to the letter: each section in an empty folder, with
// what is published, and an empty Redis.
func (r *rehearsal) start(ctx context.Context, page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	all, err := sections(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	variables, end, err := r.everybody(ctx)
	if err != nil {
		return err
	}
	defer end()
	done := 0
	for i, section := range all {
		if len(section.parts) == 0 {
			continue
		}
		done++
		begin := time.Now()
		// The page's calls have 250 ms each, which a machine that is busy with others' work may not keep.
		for try := range 3 {
			dir, err := r.folder(fmt.Sprintf("section%d-%d", i, try))
			if err != nil {
				return err
			}
			if _, err = onRedis(ctx, func() (any, error) { return nil, section.follow(ctx, dir, variables) }); err == nil {
				break
			}
			if try == 2 || !errors.As(err, new(otherOutput)) {
				return fmt.Errorf("%s, %q: %w", page, section.title, err)
			}
			fmt.Printf("  %s, once more: %v\n", section.title, err)
		}
		fmt.Printf("  %s, %d blocks: %.1f s\n", section.title, len(section.parts), time.Since(begin).Seconds())
	}
	if done == 0 {
		return fmt.Errorf("%s says nothing to do", page)
	}
	return nil
}

// everybody is the environment of a reader of any language, with the three packages
// as they are published.
func (r *rehearsal) everybody(ctx context.Context) (variables []string, end func(), err error) {
	python, err := r.python(ctx)
	if err != nil {
		return nil, nil, err
	}
	node, end, err := r.node(ctx)
	if err != nil {
		return nil, nil, err
	}
	variables = slices.Concat(r.user.variables, python, node)
	return append(variables, "GOFLAGS="+userFlags), end, nil // go run adds nothing to go.mod
}

// otherOutput is the error of a command that prints something else than the page says.
type otherOutput struct{ error }

// sectionLimit is how long a section may take: longer than the page promises.
const sectionLimit = 10 * time.Minute

// follow does what a section says, and ends what its commands leave behind.
func (s section) follow(ctx context.Context, dir string, variables []string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, sectionLimit)
	defer cancel()
	var groups []int
	defer func() {
		for _, group := range groups {
			_ = syscall.Kill(-group, syscall.SIGKILL) // mostly gone
		}
	}()
	for _, part := range s.parts {
		if part.file != "" {
			err = writeFile(dir, part)
		} else if part.console {
			for _, one := range consoleOf(part.text) {
				var got string
				got, err = shell(ctx, dir, variables, one.command, &groups)
				if err == nil && !prints(got, one.want) {
					err = otherOutput{fmt.Errorf("$ %s\nprints\n%s\nand not\n%s", one.command, got, one.want)}
				}
				if err != nil {
					break
				}
			}
		} else {
			_, err = shell(ctx, dir, variables, part.text, &groups)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", part.line, err)
		}
	}
	return nil
}

func writeFile(dir string, p part) error {
	if !filepath.IsLocal(p.file) {
		return fmt.Errorf("%s is not in the folder", p.file)
	}
	file := filepath.Join(dir, filepath.FromSlash(p.file))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(p.text), 0o644)
}

// shell runs commands, and returns what they print. Those that go on in the
// background keep writing; nobody waits for them. The group has them all.
func shell(ctx context.Context, dir string, variables []string, commands string, groups *[]int) (string, error) {
	out, err := os.CreateTemp("", "release-output-") // no pipe, which would wait for all who hold it
	if err != nil {
		return "", err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	command := exec.CommandContext(ctx, "sh", "-e", "-c", commands)
	command.Dir, command.Env = dir, append(os.Environ(), variables...)
	command.Stdout, command.Stderr = out, out
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		return "", err
	}
	*groups = append(*groups, command.Process.Pid)
	failed := command.Wait()
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	text, err := io.ReadAll(out)
	if err != nil {
		return "", err
	}
	if failed != nil {
		if ctx.Err() != nil {
			failed = errors.Join(failed, ctx.Err())
		}
		return "", fmt.Errorf("%s\n%w\n%s", strings.TrimSpace(commands), failed, text)
	}
	return string(text), nil
}

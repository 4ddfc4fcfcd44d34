package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// pin keeps the servers and this process on CPUs of their own, so that they do
// not push each other away.
type pin struct {
	all            string // as taskset writes them: 0,1
	server, client string
}

// CanPin reports whether there is something to pin, and a program to do it.
func CanPin() bool {
	_, err := exec.LookPath("taskset")
	return err == nil && runtime.NumCPU() > 1
}

// pinClient leaves the first of this process's CPUs to the servers.
func pinClient(ctx context.Context) (*pin, error) {
	out, err := exec.CommandContext(ctx, "taskset", "-c", "-p", own).Output()
	if err != nil {
		return nil, fmt.Errorf("taskset: %w", err)
	}
	all := strings.TrimSpace(string(out[strings.LastIndexByte(string(out), ':')+1:]))
	cpus, err := cpuList(all)
	if err != nil {
		return nil, fmt.Errorf("taskset: %w", err)
	}
	if len(cpus) < 2 {
		return nil, fmt.Errorf("taskset: there is only CPU %s", all)
	}
	p := &pin{all: all, server: cpus[0], client: strings.Join(cpus[1:], ",")}
	return p, moveProcess(ctx, p.client, own)
}

// unpinned measures something with servers and this process free to run anywhere.
func (b *bench) unpinned(ctx context.Context, measure func(free *bench) error) error {
	if b.pin == nil {
		return measure(b)
	}
	if err := moveProcess(ctx, b.pin.all, own); err != nil {
		return err
	}
	free := *b
	free.pin = nil
	return errors.Join(measure(&free), moveProcess(context.WithoutCancel(ctx), b.pin.client, own))
}

// moveServer moves a server to its CPU.
func (p *pin) moveServer(ctx context.Context, pid string) error {
	if p == nil {
		return nil
	}
	return moveProcess(ctx, p.server, pid)
}

// String says who runs where.
func (p *pin) String() string {
	if p == nil {
		return "Nothing is pinned to a CPU."
	}
	return fmt.Sprintf("For server times, redis-server is on CPU %s and clients are on %s.", p.server, p.client)
}

// own is this process.
var own = strconv.Itoa(os.Getpid())

// moveProcess moves all threads of a process.
func moveProcess(ctx context.Context, cpus, pid string) error {
	for range 2 { // a thread may have been born meanwhile
		out, err := exec.CommandContext(ctx, "taskset", "-a", "-c", "-p", cpus, pid).CombinedOutput()
		if err != nil {
			return fmt.Errorf("taskset: %w: %s", err, out)
		}
	}
	if pid == own {
		runtime.SetDefaultGOMAXPROCS()
	}
	return nil
}

// cpuList reads a list like 0-2,5.
func cpuList(list string) ([]string, error) {
	var cpus []string
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.Atoi(from)
		if err != nil {
			return nil, err
		}
		last, err := strconv.Atoi(to)
		if err != nil {
			return nil, err
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, strconv.Itoa(cpu))
		}
	}
	return cpus, nil
}

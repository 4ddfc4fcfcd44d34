package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
)

// pin keeps the servers and this process on CPUs of their own, so that they do not push each
// other away. Servers are on CPU 0.
type pin struct {
	all, client string // as taskset writes them: 0-3
}

// canPin reports whether there is something to pin, and a program to do it.
func canPin() bool {
	_, err := exec.LookPath("taskset")
	return err == nil && runtime.NumCPU() > 1
}

// pinClient leaves CPU 0 to the servers.
func pinClient(ctx context.Context) (*pin, error) {
	last := runtime.NumCPU() - 1
	p := &pin{all: fmt.Sprint("0-", last), client: fmt.Sprint("1-", last)}
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
	return moveProcess(ctx, "0", pid)
}

// String says who runs where.
func (p *pin) String() string {
	if p == nil {
		return "Nothing is pinned to a CPU."
	}
	return fmt.Sprintf("For server times, redis-server is on CPU 0 and clients are on %s.", p.client)
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

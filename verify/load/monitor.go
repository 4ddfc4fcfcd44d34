package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// monitor looks at the process while the load runs.
type monitor struct {
	target   *target
	workload *workload
	progress io.Writer     // nil: none is shown
	every    time.Duration // between two samples

	samples []sample
	peak    sample // the most of each
}

// sample is what the process takes at some time.
type sample struct {
	At          string `json:"at"`
	Heap        uint64 `json:"heap_bytes"` // in use after a garbage collection
	Resident    uint64 `json:"rss_bytes"`  // 0: the system does not tell
	Goroutines  int    `json:"goroutines"`
	Connections int    `json:"connections"`
	Idle        int    `json:"idle_connections"`
}

// samplesOfLoad bounds the samples of a load that takes long.
const samplesOfLoad = 10

// lookEvery is how often progress is shown and peaks are looked for.
const lookEvery = 2 * time.Second

func newMonitor(t *target, w *workload, cfg config) *monitor {
	return &monitor{
		target: t, workload: w, progress: cfg.progress,
		every: max(cfg.duration/samplesOfLoad, time.Millisecond),
		peak:  sample{At: "peak"},
	}
}

// watch takes samples and shows progress until the context ends.
func (m *monitor) watch(ctx context.Context) {
	look, take := time.NewTicker(lookEvery), time.NewTicker(m.every)
	defer look.Stop()
	defer take.Stop()
	began := time.Now()
	shown, callsShown := began, int64(0)
	for {
		select {
		case <-ctx.Done():
			m.show("")
			return
		case now := <-take.C:
			m.sample(now.Sub(began).Round(time.Second / 10).String())
		case now := <-look.C:
			m.raise(m.look())
			calls, errs := m.workload.recorder.totals()
			rate := float64(calls-callsShown) / now.Sub(shown).Seconds()
			m.show(fmt.Sprintf("%6.0f s  %9.0f calls/s  %12d calls  %8d errors",
				now.Sub(began).Seconds(), rate, calls, errs))
			shown, callsShown = now, calls
		}
	}
}

// sample takes a sample and keeps it.
func (m *monitor) sample(at string) {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	s := m.look()
	s.At, s.Heap = at, memory.HeapAlloc
	m.samples = append(m.samples, s)
	m.raise(s)
}

// look takes a sample of what is cheap to tell.
func (m *monitor) look() sample {
	s := sample{Goroutines: runtime.NumGoroutine(), Resident: statusBytes("VmRSS")}
	s.Connections, s.Idle = m.target.connections()
	return s
}

func (m *monitor) raise(s sample) {
	m.peak.Heap = max(m.peak.Heap, s.Heap)
	m.peak.Resident = max(m.peak.Resident, s.Resident, statusBytes("VmHWM"))
	m.peak.Goroutines = max(m.peak.Goroutines, s.Goroutines)
	m.peak.Connections = max(m.peak.Connections, s.Connections)
	m.peak.Idle = max(m.peak.Idle, s.Idle)
}

// show writes over the line on the terminal that it wrote before.
func (m *monitor) show(line string) {
	if m.progress != nil {
		fmt.Fprintf(m.progress, "\r\x1b[K%s", line)
	}
}

// statusBytes returns a size in Linux's account of the process, and 0 elsewhere.
func statusBytes(field string) uint64 {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		var kB uint64
		if _, err := fmt.Sscanf(line, field+": %d kB", &kB); err == nil {
			return kB << 10
		}
	}
	return 0
}

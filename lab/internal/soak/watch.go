package soak

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// watch samples what the process and Redis hold until the context ends.
func watch(ctx context.Context, client redis.UniversalClient) (samples []Process) {
	heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for rest(ctx, sampleEvery) {
		metrics.Read(heap)
		samples = append(samples, Process{
			Heap: heap[0].Value.Uint64(), Goroutines: runtime.NumGoroutine(), Redis: usedMemory(ctx, client),
		})
	}
	return samples
}

const sampleEvery = 250 * time.Millisecond

// usedMemory returns the bytes that Redis uses for its data, or 0 if it does not answer.
func usedMemory(ctx context.Context, client redis.UniversalClient) uint64 {
	info, _ := client.Info(ctx, "memory").Result()
	lines := bufio.NewScanner(strings.NewReader(info))
	for lines.Scan() {
		if bytes, ok := strings.CutPrefix(lines.Text(), "used_memory_dataset:"); ok {
			n, _ := strconv.ParseUint(bytes, 10, 64)
			return n
		}
	}
	return 0
}

// quarters returns the medians of the first and of the last quarter of the samples.
func quarters(samples []Process) (first, last Process) {
	quarter := len(samples) / 4
	if quarter == 0 {
		return Process{}, Process{}
	}
	return medians(samples[:quarter]), medians(samples[len(samples)-quarter:])
}

func medians(samples []Process) Process {
	var heap, redis []uint64
	var goroutines []int
	for _, s := range samples {
		heap, goroutines = append(heap, s.Heap), append(goroutines, s.Goroutines)
		if s.Redis > 0 {
			redis = append(redis, s.Redis)
		}
	}
	return Process{Heap: median(heap), Goroutines: median(goroutines), Redis: median(redis)}
}

func median[N cmp.Ordered](numbers []N) (middle N) {
	slices.Sort(numbers)
	if len(numbers) > 0 {
		middle = numbers[len(numbers)/2]
	}
	return middle
}

// grown returns an error if the last quarter holds much more than the first one: half as
// much again, and more than what comes and goes.
func grown(first, last Process) error {
	var wrong []error
	if last.Heap > first.Heap+first.Heap/2+8<<20 {
		wrong = append(wrong, fmt.Errorf("the heap grew from %d to %d KB", first.Heap>>10, last.Heap>>10))
	}
	if last.Redis > first.Redis+first.Redis/2+8<<20 {
		wrong = append(wrong, fmt.Errorf("the data in Redis grew from %d to %d KB", first.Redis>>10, last.Redis>>10))
	}
	if last.Goroutines > first.Goroutines+first.Goroutines/2+50 {
		wrong = append(wrong, fmt.Errorf("the goroutines grew from %d to %d", first.Goroutines, last.Goroutines))
	}
	return errors.Join(wrong...)
}

package main

import (
	"context"
	"runtime"
	"strconv"
)

// dataMemory returns how many bytes of Redis's memory are not the clients'. Of
// an idle server this changes with its keys alone.
func (s *server) dataMemory(ctx context.Context) (float64, error) {
	info, err := infoFields(ctx, s.client, "memory")
	if err != nil {
		return 0, err
	}
	used, err := strconv.ParseFloat(info["used_memory"], 64)
	if err != nil {
		return 0, err
	}
	clients, err := strconv.ParseFloat(info["mem_clients_normal"], 64)
	return used - clients, err
}

// memoryOfCustomers returns how many bytes Redis keeps for a customer, at each of
// some ascending numbers of customers.
func (s *server) memoryOfCustomers(ctx context.Context, numbers []int, names []string, callers int, decide decide) ([]float64, error) {
	// Connections and scripts are there before.
	if err := decideAll(ctx, callers, names[:numbers[0]], decide); err != nil {
		return nil, err
	}
	if err := s.clear(ctx); err != nil {
		return nil, err
	}
	empty, err := s.dataMemory(ctx)
	if err != nil {
		return nil, err
	}
	perCustomer := make([]float64, len(numbers))
	before := 0
	for i, number := range numbers {
		if err := decideAll(ctx, callers, names[before:number], decide); err != nil {
			return nil, err
		}
		full, err := s.dataMemory(ctx)
		if err != nil {
			return nil, err
		}
		perCustomer[i] = (full - empty) / float64(number)
		before = number
	}
	return perCustomer, s.clear(ctx)
}

// allocated returns how many allocations of how many bytes a decision takes in
// this process.
func allocated(ctx context.Context, callers int, customers []string, decide decide) (allocations, bytes float64, err error) {
	all := func() error { return decideAll(ctx, callers, customers, decide) }
	if err := all(); err != nil { // connections, buffers and the script's text
		return 0, 0, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := all(); err != nil {
		return 0, 0, err
	}
	runtime.ReadMemStats(&after)
	n := float64(len(customers))
	return float64(after.Mallocs-before.Mallocs) / n, float64(after.TotalAlloc-before.TotalAlloc) / n, nil
}

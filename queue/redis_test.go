package queue_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/queue"
	"github.com/redis/go-redis/v9"
)

// Of each level the documents are served as they came; the last level's came
// first.
func TestBLPopOfAllNamesServesByLevel(t *testing.T) {
	client := redistest.Start(t).Client()
	for _, last := range []priority.Level{1, 2, 9, 255} {
		prefix := fmt.Sprint("policy of ", last)
		fill(t, client, prefix, last, 2)
		var served, want []string
		for level := priority.Level(1); level <= last; level++ {
			want = append(want, fmt.Sprintf("1 of level %d", level), fmt.Sprintf("2 of level %d", level))
		}
		for range want {
			popped, err := client.BLPop(t.Context(), 0, queue.Names(prefix, last)...).Result()
			if err != nil {
				t.Fatal(err)
			}
			served = append(served, popped[1])
		}
		if !slices.Equal(served, want) {
			t.Errorf("%d levels: served\n%q\nwant\n%q", last, served, want)
		}
	}
}

func TestAPickerServesEachStreamByItsWeight(t *testing.T) {
	client := redistest.Start(t).Client()
	picker, err := queue.NewPicker(3, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, names := t.Context(), queue.Names("documents", 2)
	for _, name := range names {
		if err := client.XGroupCreateMkStream(ctx, name, "workers", "0").Err(); err != nil {
			t.Fatal(err)
		}
	}
	for level := priority.Level(2); level >= 1; level-- {
		for i := range 4 {
			err := client.XAdd(ctx, &redis.XAddArgs{
				Stream: queue.Name("documents", level, 2),
				Values: []any{"document", fmt.Sprintf("%d of level %d", i+1, level)},
			}).Err()
			if err != nil {
				t.Fatal(err)
			}
		}
	}

	var served []string
	hasWork := []bool{true, true}
	for {
		level, ok := picker.Pick(hasWork)
		if !ok {
			break
		}
		streams, err := client.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: "workers", Consumer: "worker", Streams: []string{names[level-1], ">"}, Count: 1, Block: -1,
		}).Result()
		if err == redis.Nil {
			hasWork[level-1] = false
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		served = append(served, streams[0].Messages[0].Values["document"].(string))
	}
	want := []string{
		"1 of level 1", "2 of level 1", "1 of level 2", "3 of level 1",
		"4 of level 1", "2 of level 2", "3 of level 2", "4 of level 2",
	}
	if !slices.Equal(served, want) {
		t.Errorf("served\n%q\nwant\n%q", served, want)
	}
}

// fill puts n documents of each level into its list, the last level's first.
func fill(t *testing.T, client *redis.Client, prefix string, last priority.Level, n int) {
	t.Helper()
	for i := range n {
		for level := last; level >= 1; level-- {
			document := fmt.Sprintf("%d of level %d", i+1, level)
			if err := client.RPush(t.Context(), queue.Name(prefix, level, last), document).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

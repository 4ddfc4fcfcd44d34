package priority_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
)

func TestTrackerSmoke(t *testing.T) {
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		tracker, err := priority.NewRedisTracker(client, nil)
		if err != nil {
			t.Fatal(err)
		}
		memory := new(priority.MemoryTracker)
		w := &world{slack: handSlack}
		docs := customers(250)
		for i := range 30 {
			got, err := tracker.Submit(t.Context(), "acme", docs[i])
			want, _ := memory.Submit(t.Context(), "acme", docs[i])
			if err != nil || !w.agree(got, want) {
				t.Fatalf("%v %+v, want %+v", err, got, want)
			}
		}
		if err := tracker.Done(t.Context(), "acme", docs[3]); err != nil {
			t.Fatal(err)
		}
		memory.Done(t.Context(), "acme", docs[3])
		got, err := tracker.SubmitN(t.Context(), "acme", docs)
		want, _ := memory.SubmitN(t.Context(), "acme", docs)
		if err != nil || !w.agreeAll(got, want) {
			t.Fatalf("%v %+v,\nwant %+v", err, got, want)
		}
		p, err := tracker.Peek(t.Context(), "acme")
		q, _ := memory.Peek(t.Context(), "acme")
		if err != nil || !w.agree(p, q) {
			t.Fatalf("%v %+v,\nwant %+v", err, p, q)
		}
		if err := tracker.DoneN(t.Context(), "acme", docs[5:]); err != nil {
			t.Fatal(err)
		}
		memory.DoneN(t.Context(), "acme", docs[5:])
		p, err = tracker.Peek(t.Context(), "acme")
		q, _ = memory.Peek(t.Context(), "acme")
		if err != nil || !w.agree(p, q) {
			t.Fatalf("%v %+v,\nwant %+v", err, p, q)
		}
		t.Log(p)
		if err := tracker.Reset(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
		if n := client.DBSize(t.Context()).Val(); n != 0 {
			t.Fatal(n)
		}
	})
}

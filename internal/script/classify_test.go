package script

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"

	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
)

// An answer of Redis that is not a reply of the script says whether the script
// has run.
func TestClassify_Reply(t *testing.T) {
	var file struct {
		Answers []struct{ Answer, Class, Then string }
		Replies []struct{ Why, Reply string }
	}
	readVectors(t, "errors.json", &file)
	for _, a := range file.Answers {
		want := result{Failure: Failure{outcomes[a.Class], reply(a.Answer)}, again: a.Then == "again", noScript: a.Then == "text"}
		if got := classify(&Call{}, want.Err, true); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", a.Answer, got, want)
		}
		// What was never sent was never run, whatever Redis says to the client.
		if got := classify(&Call{}, want.Err, false); got.Outcome == Unknown {
			t.Errorf("%q: %+v for a command that was not sent", a.Answer, got)
		}
		if got := classify(&Call{ReadOnly: true}, want.Err, true); got.Outcome == Unknown {
			t.Errorf("%q: %+v for a command that writes nothing", a.Answer, got)
		}
	}

	var replies string
	redisServer, err := miniserver.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer redisServer.Close()
	redisServer.SetPreHook(func(peer *miniserver.Peer, command string, _ ...string) bool {
		if command == "EVALSHA" {
			peer.WriteRaw(replies)
		}
		return command == "EVALSHA"
	})
	for _, r := range file.Replies {
		replies = r.Reply
		client := redis.NewClient(&redis.Options{Addr: redisServer.Addr().String()})
		if _, failure := NewRunner(client).Run(begin(t, time.Minute), &Call{Script: next, Key: "k", Integers: 2}); failure == nil || failure.Outcome != Unknown {
			t.Errorf("a reply that is %s: %+v", r.Why, failure)
		}
		_ = client.Close()
	}
}

// outcomes are those of the classes of ../../vectors.
var outcomes = map[string]Outcome{"not_counted": NotCounted, "outcome_unknown": Unknown, "corrupt": Corrupt}

func readVectors(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile("../../vectors/" + file) // package vectors imports this one
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

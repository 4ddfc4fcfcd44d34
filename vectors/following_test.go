package vectors_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/testing/virtualredis"
)

// The format of following.json; README.md describes it.
type (
	followingFile struct {
		Cases   []followingCase `json:"cases"`
		Refused struct {
			Policies    []string `json:"policies"`
			PoliciesKey []string `json:"policies_key"`
		} `json:"refused"`
	}
	followingCase struct {
		Name  string          `json:"name"`
		Own   ownPolicies     `json:"own"`
		Steps []followingStep `json:"steps"`
	}
	ownPolicies struct {
		Thresholds []int64                `json:"thresholds,omitzero"`
		Tiers      map[string]ownPolicies `json:"tiers,omitempty"`
	}
	followingStep struct {
		PoliciesKey string                       `json:"policies_key,omitempty"`
		Version     int64                        `json:"version"`
		Code        control.Code                 `json:"code,omitempty"`
		Policies    map[string]priority.Policies `json:"policies"` // by tier
		Digest      string                       `json:"digest"`
	}
)

func TestFollowing(t *testing.T) {
	t.Parallel()
	client := virtualredis.Start(t).Listen()
	check(t, "following.json", func(file *followingFile) {
		for _, c := range file.Cases {
			follow(t, client, c)
		}
		version := func(n int, policies string) string {
			return fmt.Sprintf(`{"version":%d,"changed":%[1]d,"policies":%s}`, n, policies)
		}
		texts := file.Refused.PoliciesKey
		for _, policies := range file.Refused.Policies {
			texts = append(texts, version(2, policies))
		}
		for _, text := range texts {
			steps := []followingStep{{PoliciesKey: version(1, `{"thresholds":[-1]}`)}, {PoliciesKey: text}, {PoliciesKey: version(3, `{"thresholds":[-3]}`)}}
			follow(t, client, followingCase{Steps: steps})
			first, second, last := steps[0], steps[1], steps[2]
			if (second.Code != control.Corrupt && second.Code != control.Invalid) || second.Version != 1 || !reflect.DeepEqual(first.Policies, second.Policies) || last.Version != 3 || last.Code != "" {
				t.Errorf("%q came to %+v, then %+v", text, second, last)
			}
		}
	})
}

// follow fills in what a control.Follower makes of each step.
func follow(t *testing.T, client *redis.Client, c followingCase) {
	t.Helper()
	ctx := t.Context()
	tierOf := func(customer string) string { return customer }
	own := priority.RedisOptions{
		Policy: priority.Policy{Thresholds: c.Own.Thresholds}, TierOf: tierOf, Tiers: make(map[string]priority.Policy), Timeout: time.Minute,
	}
	for name, policy := range c.Own.Tiers {
		own.Tiers[name] = priority.Policy{Thresholds: policy.Thresholds}
	}
	store, err := priority.NewRedisStore(client, &own)
	if err != nil {
		t.Fatal(err)
	}
	const key = "priority:{control}:policies"
	if err := client.Del(ctx, key).Err(); err != nil { // the case before left it
		t.Fatal(err)
	}
	follower, err := control.Follow(client, store, &control.Options{Interval: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Steps {
		step := &c.Steps[i]
		err := client.Del(ctx, key).Err()
		if step.PoliciesKey != "" {
			err = client.Set(ctx, key, step.PoliciesKey, 0).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = follower.Refresh(ctx) // the code says why it fails
		status := follower.Status()
		step.Code, step.Version, step.Digest = status.Code, status.Version, store.Digest()
		step.Policies = make(map[string]priority.Policies)
		for _, tier := range []string{"none", "gold"} {
			step.Policies[tier] = priority.Policies{Policy: store.PolicyOf(tier)}
		}
	}
	if err := follower.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

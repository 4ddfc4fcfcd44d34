package vectors_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/testing/vectors"
)

// The format of rules.json; README.md describes it.
type (
	rulesFile struct {
		Cases   []rulesCase `json:"cases"`
		Refused struct {
			Rules    []string `json:"rules"`
			RulesKey []string `json:"rules_key"`
		} `json:"refused"`
	}
	rulesCase struct {
		Name  string      `json:"name"`
		Own   ownRules    `json:"own"`
		Steps []rulesStep `json:"steps"`
	}
	ownRules struct {
		Thresholds []int64             `json:"thresholds,omitzero"`
		Tiers      map[string]ownRules `json:"tiers,omitempty"`
	}
	rulesStep struct {
		RulesKey string                   `json:"rules_key,omitempty"`
		Version  int64                    `json:"version"`
		Error    string                   `json:"error,omitempty"`
		Policies map[string]control.Rules `json:"policies"` // by tier
	}
)

func TestRules(t *testing.T) {
	t.Parallel()
	client := vectors.StartRedis(t).Client
	check(t, "rules.json", func(file *rulesFile) {
		for _, c := range file.Cases {
			followRules(t, client, c)
		}
		version := func(n int, rules string) string {
			return fmt.Sprintf(`{"version":%d,"changed":%[1]d,"rules":%s}`, n, rules)
		}
		texts := file.Refused.RulesKey
		for _, rules := range file.Refused.Rules {
			texts = append(texts, version(2, rules))
		}
		for _, text := range texts {
			steps := []rulesStep{{RulesKey: version(1, `{"thresholds":[-1]}`)}, {RulesKey: text}, {RulesKey: version(3, `{"thresholds":[-3]}`)}}
			followRules(t, client, rulesCase{Steps: steps})
			first, second, last := steps[0], steps[1], steps[2]
			if second.Error != "refused" || second.Version != 1 || !reflect.DeepEqual(first.Policies, second.Policies) || last.Version != 3 || last.Error != "" {
				t.Errorf("%q came to %+v, then %+v", text, second, last)
			}
		}
	})
}

// followRules fills in what a control.Store makes of each step.
func followRules(t *testing.T, client *redis.Client, c rulesCase) {
	t.Helper()
	ctx := t.Context()
	tierOf := func(customer string) string { return customer }
	own := priority.RedisOptions{
		Policy: priority.Policy{Thresholds: c.Own.Thresholds}, TierOf: tierOf, Tiers: make(map[string]priority.Policy), Timeout: time.Minute,
	}
	for name, policy := range c.Own.Tiers {
		own.Tiers[name] = priority.Policy{Thresholds: policy.Thresholds}
	}
	store, err := control.New(client, &control.Options{Store: own, Interval: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Steps {
		step := &c.Steps[i]
		const key = "priority:{control}:rules"
		err := client.Del(ctx, key).Err()
		if step.RulesKey != "" {
			err = client.Set(ctx, key, step.RulesKey, 0).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
		step.Error = classOfRules(t, store.Refresh(ctx))
		step.Version = store.Status().Version
		step.Policies = make(map[string]control.Rules)
		for _, tier := range []string{"none", "gold"} {
			step.Policies[tier] = control.Rules{Policy: store.PolicyOf(tier)}
		}
	}
	if err := store.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

func classOfRules(t *testing.T, err error) string {
	t.Helper()
	switch {
	case err == nil:
		return ""
	case errors.Is(err, control.ErrLost):
		return "lost"
	case errors.Is(err, control.ErrNewer):
		return "newer"
	case errors.Is(err, control.ErrCorrupt), errors.Is(err, priority.ErrInvalid):
		return "refused"
	}
	t.Errorf("an error of no class: %v", err)
	return ""
}

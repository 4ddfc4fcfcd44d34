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
	"github.com/docpriority/priority/internal/vectors"
)

// The format of rules.json; README.md describes it.
type (
	rulesCase struct {
		Name  string      `json:"name"`
		Own   ownRules    `json:"own"`
		Steps []rulesStep `json:"steps"`
	}
	// ownRules are a process's own policies, as rules have them.
	ownRules struct {
		Thresholds []int64             `json:"thresholds,omitzero"`
		Tiers      map[string]ownRules `json:"tiers,omitempty"`
	}
	// rulesStep is what the key holds when the process reads it, and what comes of it.
	rulesStep struct {
		RulesKey string                   `json:"rules_key,omitempty"`
		Version  int64                    `json:"version"`
		Error    string                   `json:"error,omitempty"`
		Policies map[string]control.Rules `json:"policies"` // by tier
	}
)

// refusedRules are what the key may hold after version 1, of which none is followed.
var refusedRules = struct {
	Rules    []string `json:"rules"`     // in an item of version 2
	RulesKey []string `json:"rules_key"` // in place of such an item
}{
	Rules: []string{"[]", "7", `"x"`, "true", "false", `""`, "0", `{"threshold":[-1]}`, `{"thresholds":7}`, `{"thresholds":[-1.5]}`, `{"thresholds":["-1"]}`, `{"thresholds":[1,2]}`, `{"thresholds":[-1,-1]}`,
		`{"thresholds":[true]}`, `{"thresholds":[-9007199254740994]}`, `{"reset_interval_ms":-1}`, `{"reset_interval_ms":"1"}`, `{"reset_interval_ms":1e300}`, `{"reset_interval_ms":9223372036855}`, `{"reset_interval_ms":true}`, `{"reset_mode":"x"}`, `{"reset_mode":1}`,
		`{"loads":[8,8]}`, `{"loads":[-1]}`, `{"loads":["1"]}`, `{"loads":{}}`, `{"loads":[1e10]}`, `{"turns":-1}`, `{"turns":0.5}`, `{"turns":"1"}`, `{"turns":true}`, `{"turns":60}`,
		`{"tiers":[]}`, `{"tiers":7}`, `{"tiers":false}`, `{"tiers":{"gold":7}}`, `{"tiers":{"gold":[]}}`, `{"tiers":{"gold":{"tiers":{}}}}`, `{"tiers":{"gold":{"x":1}}}`},
	RulesKey: []string{"many", "[]", "null", "7", `"x"`, `{"version":2`, `{"version":0,"changed":2,"rules":` + below1 + `}`, `{"changed":2,"rules":` + below1 + `}`,
		`{"version":2,"changed":0,"rules":` + below1 + `}`, `{"version":"2","changed":2,"rules":` + below1 + `}`, `{"version":2.5,"changed":2,"rules":` + below1 + `}`,
		`{"version":10000000000000,"changed":2,"rules":` + below1 + `}`, `{"version":2,"changed":9223372036854775808,"rules":` + below1 + `}`, "\ufeff" + setRules(2, below1).RulesKey},
}

// Rules that differ.
const below1, below3, below5, fourLevels = `{"thresholds":[-1]}`, `{"thresholds":[-3]}`, `{"thresholds":[-5]}`, `{"thresholds":[-1,-2,-3]}`

func rulesKey(text string) rulesStep { return rulesStep{RulesKey: text} }

// setRules is a change of the rules, and setRulesAt one of another time than its version.
func setRules(version int64, rules string) rulesStep { return setRulesAt(version, version, rules) }

func setRulesAt(version, changed int64, rules string) rulesStep {
	return rulesKey(fmt.Sprintf(`{"version":%d,"changed":%d,"at":%[2]d,"by":"mary","why":"a test","rules":%[3]s}`, version, changed, rules))
}

// rulesCases are the cases of rules.json, without what comes of them.
func rulesCases() []rulesCase {
	three := ownRules{Thresholds: []int64{-2, -4}}
	nine := ownRules{Tiers: map[string]ownRules{"gold": {Thresholds: []int64{-5}}}}
	nothing := rulesStep{}
	return []rulesCase{
		{"set, changed, withdrawn", nine, []rulesStep{nothing, setRules(1, below1), setRules(2, below3), setRules(9, below5), setRules(10, "null"), setRules(11, below3)}},
		{"all is lost, and comes back", nine, []rulesStep{setRules(12, below1), nothing, setRules(12, below1)}},
		{"the newest are lost", nine, []rulesStep{setRules(11, below1), setRules(12, below3), setRules(11, below1), setRulesAt(12, 11, below5), setRules(13, below5)}},
		{"all is lost, and others are set", nine, []rulesStep{setRules(12, below1), setRules(1, below3), setRulesAt(2, 99, below3)}},
		{"others of the same version are set", nine, []rulesStep{setRules(12, below1), setRulesAt(12, 13, below3)}},
		{"a withdrawal is lost", nine, []rulesStep{setRules(11, below1), setRules(12, "null"), setRules(11, below1), setRules(13, below3)}},
		{"what could not be used is lost", three, []rulesStep{setRules(1, below1), setRules(2, fourLevels), nothing, setRules(1, below1), setRules(2, fourLevels), setRules(3, "7"), setRules(2, fourLevels), setRulesAt(1, 99, below3)}},
		{"what cannot be read is removed", nine, []rulesStep{rulesKey("many"), nothing, setRules(1, below1), rulesKey("many"), nothing}},
		{"a later format", nine, []rulesStep{setRules(1, below1), rulesKey(`{"format":2,"version":2,"changed":2,"rules":{"levels":"of another kind"}}`), setRules(3, below3)}},
		{"fields that are not known, null or absent", nine, []rulesStep{
			rulesKey(`{"format":1,"later":[{}],"rules":` + below1 + `,"changed":1,"version":1}`), rulesKey(`{"format":null,"version":2,"changed":2,"rules":` + below3 + `}`),
			rulesKey(`{"version":3,"changed":3}`),
		}},
		{"what is absent is the default", nine, []rulesStep{
			setRules(1, `{}`), setRules(2, `{"thresholds":[-2,-9]}`), setRules(3, `{"reset_interval_ms":60000,"reset_mode":"last-reset"}`),
			setRules(4, `{"thresholds":null,"reset_interval_ms":0,"reset_mode":"","loads":null,"turns":0,"tiers":null}`), setRules(5, `{"thresholds":[-2,-9],"loads":[]}`), setRules(6, `{"thresholds":[-1],"loads":[0.5,9],"turns":2}`),
		}},
		{"no more levels than the queue has", three, []rulesStep{
			setRules(1, `{"thresholds":[-1,-9]}`), setRules(2, `{"thresholds":[]}`), setRules(3, `{"thresholds":[-1],"loads":[5],"turns":1}`),
			setRules(4, fourLevels), setRules(5, `{"thresholds":[-1],"loads":[1,2,3]}`), setRules(6, `{}`), setRules(7, below3),
		}},
		{"tiers", nine, []rulesStep{
			setRules(1, `{"thresholds":[-1,-2],"tiers":{"gold":{"thresholds":[-7]},"lead":{}}}`),
			setRules(3, `{"thresholds":[-1,-2],"tiers":{"gold":{"thresholds":[-7]},"lead":{"thresholds":[]}}}`), setRules(4, below1), setRules(5, "null"), setRules(6, `{"tiers":{"silver":{"thresholds":[-8]}}}`),
		}},
	}
}

// rules.json is what a control.Store comes to.
func TestRules(t *testing.T) {
	t.Parallel()
	client := vectors.StartRedis(t).Client
	cases := rulesCases()
	for i := range cases {
		followRules(t, client, &cases[i])
	}
	refused := func(step rulesStep) {
		junk := rulesCase{Steps: []rulesStep{setRules(1, below1), step, setRules(3, below3)}}
		followRules(t, client, &junk)
		first, second, last := junk.Steps[0], junk.Steps[1], junk.Steps[2]
		if second.Error != "refused" || second.Version != 1 || !reflect.DeepEqual(first.Policies, second.Policies) || last.Version != 3 || last.Error != "" {
			t.Errorf("%q came to %+v, then %+v", step.RulesKey, second, last)
		}
	}
	for _, rules := range refusedRules.Rules {
		refused(setRules(2, rules))
	}
	for _, text := range refusedRules.RulesKey {
		refused(rulesKey(text))
	}
	compare(t, "rules.json", asFile(t, "cases", cases, "refused", refusedRules))
}

// followRules does the steps on a store.
func followRules(t *testing.T, client *redis.Client, c *rulesCase) {
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

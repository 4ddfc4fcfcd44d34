package vectors_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
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
	// rulesStep is what the two keys hold when the process reads them, and what comes of it.
	rulesStep struct {
		VersionKey string                   `json:"version_key,omitempty"`
		RulesKey   string                   `json:"rules_key,omitempty"`
		Version    int64                    `json:"version"`
		Error      string                   `json:"error,omitempty"`
		Policies   map[string]control.Rules `json:"policies"` // by tier
	}
)

// refusedRules are what keys of version 2 may hold, of which none is followed.
var refusedRules = struct {
	Rules       []string `json:"rules"`        // in an item
	RulesKey    []string `json:"rules_key"`    // in place of an item
	VersionKeys []string `json:"version_keys"` // beside newer rules
}{
	Rules: []string{"[]", "7", `"x"`, "true", "false", `""`, "0", `{"threshold":[-1]}`, `{"thresholds":7}`, `{"thresholds":[-1.5]}`, `{"thresholds":["-1"]}`, `{"thresholds":[1,2]}`, `{"thresholds":[-1,-1]}`,
		`{"thresholds":[true]}`, `{"thresholds":[-9007199254740994]}`, `{"reset_interval_ms":-1}`, `{"reset_interval_ms":"1"}`, `{"reset_interval_ms":1e300}`, `{"reset_interval_ms":9223372036855}`, `{"reset_interval_ms":true}`, `{"reset_mode":"x"}`, `{"reset_mode":1}`,
		`{"loads":[8,8]}`, `{"loads":[-1]}`, `{"loads":["1"]}`, `{"loads":{}}`, `{"loads":[1e10]}`, `{"turns":-1}`, `{"turns":0.5}`, `{"turns":"1"}`, `{"turns":true}`, `{"turns":60}`,
		`{"tiers":[]}`, `{"tiers":7}`, `{"tiers":false}`, `{"tiers":{"gold":7}}`, `{"tiers":{"gold":[]}}`, `{"tiers":{"gold":{"tiers":{}}}}`, `{"tiers":{"gold":{"x":1}}}`},
	RulesKey: []string{"many", "[]", "null", "7", `"x"`, `{"version":2`, `{"version":0,"at":2,"rules":` + below1 + `}`, `{"at":2,"rules":` + below1 + `}`,
		`{"version":2,"at":0,"rules":` + below1 + `}`, `{"version":"2","at":2,"rules":` + below1 + `}`, `{"version":2.5,"at":2,"rules":` + below1 + `}`,
		`{"version":9223372036854775808,"at":2,"rules":` + below1 + `}`, `{"version":2,"at":9223372036854775808,"rules":` + below1 + `}`, "\ufeff" + item(2, 2, below1)},
	VersionKeys: []string{"2", "2 2", "2 2 7 7", "x 2 7", "2 x 7", "0 2 7", "-2 2 7", "2_0 2 7", "1e3 2 7", " 2 7"},
}

// Rules that differ.
const below1, below3, below5, fourLevels = `{"thresholds":[-1]}`, `{"thresholds":[-3]}`, `{"thresholds":[-5]}`, `{"thresholds":[-1,-2,-3]}`

// item is what the key of the rules holds.
func item(version, at int64, rules string) string {
	return fmt.Sprintf(`{"version":%d,"at":%d,"until":0,"by":"mary","why":"a test","rules":%s}`, version, at, rules)
}

func keys(version, rules string) rulesStep { return rulesStep{VersionKey: version, RulesKey: rules} }

// setRules is a change of the rules, its version also its time.
func setRules(version int64, rules string) rulesStep {
	return keys(fmt.Sprintf("%d %d 7", version, version), item(version, version, rules))
}

// rulesCases are the cases of rules.json, without what comes of them.
func rulesCases() []rulesCase {
	three := ownRules{Thresholds: []int64{-2, -4}}
	nine := ownRules{Tiers: map[string]ownRules{"gold": {Thresholds: []int64{-5}}}}
	set := setRules
	// other is a change of something else.
	other := func(version int64, of rulesStep) rulesStep {
		of.VersionKey = fmt.Sprintf("%d %d 8", version, version)
		return of
	}
	nothing := rulesStep{}
	var cases []rulesCase
	add := func(name string, own ownRules, steps ...rulesStep) {
		cases = append(cases, rulesCase{name, own, steps})
	}

	add("none were ever set", nine, nothing, other(3, nothing), set(4, below1))
	add("newer rules are followed", nine, set(1, below1), set(2, below3), set(9, below5), other(10, set(9, below5)))
	add("withdrawn", nine, set(1, below1), set(2, `null`), other(3, set(2, `null`)), set(4, below3))

	add("lost: all", nine, set(12, below1), nothing, set(12, below1))
	add("lost: the rules", nine, set(12, below1), other(13, nothing), set(14, below3))
	add("lost: the version", nine, set(12, below1), keys("", item(12, 12, below1)), set(12, below1))
	add("lost: the newest", nine, set(11, below1), set(12, below3), set(11, below1), set(13, below5))
	add("lost: all, and others were set since", nine, set(12, below1), set(1, below3), keys("2 99 7", item(2, 99, below3)))
	add("a later version of older rules", nine, set(12, below1), keys("13 13 7", item(11, 11, below3)), set(14, below5))
	add("a withdrawal is lost", nine, set(11, below1), set(12, `null`), set(11, below1), keys("13 13 7", item(11, 11, below1)), set(14, below3))

	add("as many levels as the queue has", three, set(1, `{"thresholds":[-1,-9]}`), set(2, `{"thresholds":[]}`), set(3, `{"thresholds":[-1],"loads":[5],"turns":1}`))
	add("more levels than the queue has", three, set(1, below1), set(2, fourLevels), other(3, set(2, fourLevels)), set(4, below3))
	add("more levels by load", three, set(1, below1), set(2, `{"thresholds":[-1],"loads":[1,2,3]}`), set(3, below3))
	add("the default policy has more levels", three, set(1, `{}`), set(2, below1))
	add("a tier has more levels than the policy", nine, set(1, below1), set(2, `{"thresholds":[-1],"tiers":{"gold":`+fourLevels+`}}`), set(3, below3))

	add("a tier of the rules", nine, set(1, `{"thresholds":[-1,-2],"tiers":{"gold":{"thresholds":[-7]},"lead":{}}}`), set(2, `{"thresholds":[-1,-2],"tiers":{"gold":{"thresholds":[-7]},"lead":{"thresholds":[]}}}`))
	add("the process's own tiers go with its own policy", nine, nothing, set(1, below1), set(2, `null`), set(3, `{"tiers":{"silver":{"thresholds":[-8]}}}`))
	tiers := func(n int) string {
		var texts []string
		for i := range n {
			texts = append(texts, fmt.Sprintf(`"%d":{"thresholds":[-%d]}`, i, i))
		}
		return `{"thresholds":[-1],"tiers":{` + strings.Join(append(texts, `"gold":{"thresholds":[-1]}`), ",") + `}}`
	}
	add("101 different policies", nine, set(1, below1), set(2, tiers(101)), set(3, below3))

	add("what is absent is the default", nine, set(1, `{}`), set(2, `{"thresholds":[-2,-9]}`), set(3, `{"reset_interval_ms":60000,"reset_mode":"last-reset"}`),
		set(4, `{"thresholds":null,"reset_interval_ms":0,"reset_mode":"","loads":null,"turns":0,"tiers":null}`), set(5, `{"thresholds":[-2,-9],"loads":[]}`), set(6, `{"thresholds":[-1],"loads":[0.5,9],"turns":2}`))
	add("fields of an item that are not known", nine, keys("1 1 7", `{"format":1,"later":[{}],"rules":`+below1+`,"at":1,"version":1}`))

	add("a format that is null, and rules that are absent", nine, keys("1 1 7", `{"format":null,"version":1,"at":1,"rules":`+below1+`}`), keys("2 2 7", `{"version":2,"at":2}`))

	add("a later format", nine, set(1, below1), keys("2 2 7", `{"format":2,"version":2,"at":2,"rules":{"levels":"of another kind"}}`), set(3, below3))
	return cases
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
			t.Errorf("%q, %q came to %+v, then %+v", step.VersionKey, step.RulesKey, second, last)
		}
	}
	for _, rules := range refusedRules.Rules {
		refused(setRules(2, rules))
	}
	for _, text := range refusedRules.RulesKey {
		refused(keys("2 2 7", text))
	}
	for _, text := range refusedRules.VersionKeys {
		refused(keys(text, item(2, 2, below3)))
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
		_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error { // as the store reads in the background, too
			for name, text := range map[string]string{"version": step.VersionKey, "rules": step.RulesKey} {
				key := "priority:{control}:" + name
				if text == "" {
					pipe.Del(ctx, key)
				} else {
					pipe.Set(ctx, key, text, 0)
				}
			}
			return nil
		})
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

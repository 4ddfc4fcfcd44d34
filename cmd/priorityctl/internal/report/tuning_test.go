package report

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
)

var reasons = []simulation.Reason{
	simulation.SubmitBetter, simulation.NextBetter, simulation.NoDifference, simulation.Mixed, simulation.NextTooDear,
	simulation.SubmitTooDear, simulation.NobodyWaits, simulation.TooLittle,
}

// advised returns a tuning with long figures, and a policy found for each call.
func advised(reason simulation.Reason) Tuning {
	measures := simulation.Measures{"light_wait_p99_s": 612071.9, "worst_tenth_wait_s": 0.00123, "heavy_wait_mean_s": 99999.9}
	choice := func(counting string, policy priority.Policy) *simulation.Choice {
		return &simulation.Choice{Counting: counting, Policy: policy, Chosen: measures, Judged: measures}
	}
	other := priority.Policy{Thresholds: []int64{-1, -3, -10, -32, -100, -316, -1000, -3162}, ResetInterval: 6 * time.Hour}
	unsure := simulation.Contrast{Wait: 612071.9, Than: 612071.9, Low: 0.00123, High: math.Inf(1), Felt: true}
	comparison := simulation.Comparison{LightP99: unsure, WorstTenth: simulation.Contrast{Wait: 1, Than: 4, Low: 0.1, High: 0.9, Felt: true}}
	t := Tuning{
		About:     About{Name: "trace.csv", Summary: strings.Repeat("word ", 50), Service: "some service"},
		Options:   simulation.Options{Servers: 12, Policy: priority.DefaultPolicy(), Discipline: simulation.Strict},
		HeavyCost: 2,
		Advice: simulation.Advice{
			Division:  simulation.Division{Split: 100 * time.Hour, End: 150 * time.Hour, Light: 9, Stretches: 7},
			Next:      simulation.Found{Present: choice(simulation.Rule, priority.DefaultPolicy()), Best: choice(simulation.Rule, other), Gain: comparison},
			Submit:    simulation.Found{Present: choice(simulation.Submit, priority.DefaultPolicy()), Best: choice(simulation.Submit, other), Gain: comparison},
			AtPresent: comparison,
			Verdict:   comparison,
			Reason:    reason,
		},
	}
	t.Advice.Take = t.Advice.Next.Present
	if reason == simulation.SubmitBetter || reason == simulation.NextTooDear {
		t.Advice.Submit.Holds, t.Advice.Take = true, t.Advice.Submit.Best
	}
	return t
}

func TestEveryVerdictSaysWhatToCallAndFitsATerminal(t *testing.T) {
	for _, reason := range reasons {
		text := written(t, advised(reason).WriteText)
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%s: %d columns: %s", reason, n, line)
			}
		}
		call := "Call Next"
		switch reason {
		case simulation.SubmitBetter, simulation.NextTooDear:
			call = "Call Submit and Done with the policy found"
		case simulation.TooLittle:
			call = "leave things as they are"
		}
		words := strings.Join(strings.Fields(text), " ")
		if !strings.Contains(words, call) {
			t.Errorf("%s: %q is not in\n%s", reason, call, text)
		}
		if uncertain := reason == simulation.TooLittle; strings.Contains(words, "95 % interval") == uncertain {
			t.Errorf("%s: intervals\n%s", reason, text)
		}
	}
}

func TestTheVerdictNamesBothWaitsAndTheirIntervals(t *testing.T) {
	words := strings.Join(strings.Fields(written(t, advised(simulation.SubmitBetter).WriteText)), " ")
	for _, want := range []string{
		"The worst tenth is 1.00 s by Submit and 4.00 s by Next: shorter (ratio 0.25, 95 % interval 0.10 to 0.90).",
		"The light customers' p99 is 612072 s by Submit and 612072 s by Next: that may be luck (ratio 1.00, 95 % interval 0.0012 to +Inf).",
		"Policies were chosen on the first 4.2 days, and are judged on the 2.1 days after them",
		"The policy found is better than the default on the part held back, too.",
		"Submit ÷ Next, better policy",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("%q is not in\n%s", want, words)
		}
	}
	unheld := advised(simulation.NextBetter)
	unheld.Options.Policy.ResetMode = priority.SinceLastReset
	unheld.Advice.Next.Present.Policy.ResetMode = priority.SinceLastReset
	if text := written(t, unheld.WriteText); !strings.Contains(text, "Next, your policy") || !strings.Contains(text, "ResetMode:     priority.SinceLastReset") {
		t.Errorf("the present policy is not kept in\n%s", text)
	}
}

// All lines that can be printed are compiled as a program.
func TestTheLinesToPasteCompile(t *testing.T) {
	var program strings.Builder
	program.WriteString("package main\n\nimport (\n\t\"context\"\n\t\"time\"\n\n\t\"github.com/docpriority/priority\"\n\t\"github.com/redis/go-redis/v9\"\n)\n\n" +
		"var _ = time.Hour\n\nfunc main() {}\n")
	for i, reason := range reasons {
		for j, lease := range []time.Duration{0, 90 * time.Minute} {
			for k, own := range []bool{false, true} {
				tuning := advised(reason)
				tuning.Options.Lease = lease
				if own {
					tuning.Advice.Take = tuning.Advice.Next.Best
				}
				_, paste, _ := strings.Cut(written(t, tuning.WriteText), "\n\nstore, ")
				fmt.Fprintf(&program, "\nfunc paste%d%d%d(ctx context.Context, client redis.UniversalClient, customer, document string, took time.Duration) (priority.Level, error) {\n"+
					"store, %sreturn decision.Level, err\n}\n", i, j, k, paste)
			}
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	if err := os.WriteFile(file, []byte(program.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "program"), file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, program.String())
	}
}

func TestTheJSONHasEveryFigureThatIsFinite(t *testing.T) {
	for _, reason := range reasons {
		var text strings.Builder
		if err := advised(reason).WriteJSON(&text); err != nil {
			t.Fatalf("%s: %v", reason, err)
		}
		var object tuningJSON
		if err := json.Unmarshal([]byte(text.String()), &object); err != nil {
			t.Fatal(err)
		}
		if len(object.Choices) != 4 || object.Reason != string(reason) || object.Call == "" || !strings.Contains(object.Go, "store.") {
			t.Errorf("%s: %s", reason, text.String())
		}
		if reason == simulation.TooLittle {
			continue
		}
		if c := object.Comparisons[0]; c.LightP99.High != nil || c.WorstTenth.High == nil || *c.WorstTenth.High != 0.9 {
			t.Errorf("%s: %+v", reason, c)
		}
	}
}

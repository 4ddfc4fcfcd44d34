package report

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/lab/internal/simulation"
)

func TestMatrix(t *testing.T) {
	cell := func(name string, mean, within float64) simulation.Cell {
		estimate := simulation.Estimate{Mean: mean, Within: within}
		return simulation.Cell{Outcome: simulation.Outcome{Scheduler: name}, Estimate: estimate, Ratio: mean / 2}
	}
	row := func(measure string, mean, within float64) simulation.Row {
		return simulation.Row{
			Regime: simulation.Regime{Name: "flood"},
			Figure: simulation.Figure{Measure: measure},
			Cells:  []simulation.Cell{cell("rule", 2*mean, within), cell("submit", mean, within)},
			Ideal:  cell("stride", 2, 0),
		}
	}
	m := Matrix{
		Matrix: simulation.Matrix{
			Schedulers: []string{"rule", "submit"},
			Rows:       []simulation.Row{row("others_wait_p99_s", 3, 0.5), row("jain", math.NaN(), math.NaN())},
			Scores:     []simulation.Score{{Scheduler: "submit", Value: 1.25}},
		},
		Seeds: 20,
	}
	const table = `lognormal service, mean 2s, CV 1; strict consumers; seeds: 20.

| regime |          figure |        rule |      submit |         ideal |
|--------|----------------:|------------:|------------:|--------------:|
| flood  | others wait p99 | 6.00 ± 0.50 | 3.00 ± 0.50 | 2.00 (stride) |
| flood  |            jain |           - |           - | 2.00 (stride) |

| scheduler | score, 1 is ideal |                                                                                        whose order |
|-----------|------------------:|---------------------------------------------------------------------------------------------------:|
| submit    |              1.25 | nine strict levels: asynq with StrictPriority, RabbitMQ classic, BullMQ, Celery, SQL, a sorted set |
`
	if got := written(t, m.WriteTable); got != table {
		t.Errorf("got\n%s", got)
	}
}

func written(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var text strings.Builder
	if err := write(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

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
	other := priority.Policy{Thresholds: []int64{-1, -3, -10, -32, -100, -316, -1000, -3162}, ResetInterval: 6 * time.Hour, Loads: []float64{0.5, 32, 512, 2048}, Turns: 4}
	unsure := simulation.Contrast{Wait: 612071.9, Than: 612071.9, Halves: [2]float64{0.5, 2}, Felt: true}
	comparison := simulation.Comparison{LightP99: unsure, WorstTenth: simulation.Contrast{Wait: 1, Than: 4, Halves: [2]float64{0.1, 0.9}, Felt: true}}
	t := Tuning{
		About:     About{Name: "trace.csv", Summary: strings.Repeat("word ", 50), Service: "some service"},
		Options:   simulation.Options{Servers: 12, Policy: priority.DefaultPolicy()},
		HeavyCost: 2,
		Advice: simulation.Advice{
			Division:  simulation.Division{Split: 100 * time.Hour, End: 150 * time.Hour, Light: 9},
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

func TestTuning(t *testing.T) {
	for _, reason := range reasons {
		text := written(t, advised(reason).WriteText)
		call := "Call Next"
		switch reason {
		case simulation.SubmitBetter, simulation.NextTooDear:
			call = "Call Submit and Done with the policy found"
		case simulation.TooLittle:
			call = "leave things as they are"
		}
		if !strings.Contains(text, call) {
			t.Errorf("%s: %q is not in\n%s", reason, call, text)
		}
		if uncertain := reason == simulation.TooLittle; strings.Contains(text, "in each half") == uncertain {
			t.Errorf("%s: ratios\n%s", reason, text)
		}
	}
}

// All lines that can be printed are compiled as a program.
func TestTuning_LinesCompile(t *testing.T) {
	var program strings.Builder
	program.WriteString("package main\n\nimport (\n\t\"context\"\n\t\"time\"\n\n\t\"github.com/docpriority/priority\"\n\t\"github.com/redis/go-redis/v9\"\n)\n\n" +
		"var _ = time.Hour\n\nfunc main() {}\n")
	for i, reason := range reasons {
		for j, own := range []bool{false, true} {
			tuning := advised(reason)
			if own {
				tuning.Advice.Take = tuning.Advice.Next.Best
			}
			_, paste, _ := strings.Cut(written(t, tuning.WriteText), "\n\nstore, ")
			fmt.Fprintf(&program, "\nfunc paste%d%d(ctx context.Context, client redis.UniversalClient, customer, document string, cost float64, took time.Duration) (priority.Level, error) {\n"+
				"store, %sreturn decision.Level, err\n}\n", i, j, paste)
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

package report

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/lab/internal/simulation"
)

// All lines that can be printed are compiled.
func TestTuning_LinesCompile(t *testing.T) {
	var program strings.Builder
	program.WriteString("package lines\n\nimport (\n\t\"context\"\n\t\"time\"\n\n\t\"github.com/docpriority/priority\"\n\t\"github.com/redis/go-redis/v9\"\n)\n\n" +
		"var _ = time.Hour\n")
	for _, counting := range []string{simulation.Rule, simulation.Submit} {
		for i, policy := range []priority.Policy{
			priority.DefaultPolicy(), {Thresholds: []int64{-1, -316}, ResetInterval: 6 * time.Hour, Loads: []float64{0.5, 32}, Turns: 4},
		} {
			lines := Tuning{Advice: simulation.Advice{Take: &simulation.Choice{Counting: counting, Policy: policy}}}.lines()
			fmt.Fprintf(&program, "\nfunc %s%d(ctx context.Context, client redis.UniversalClient, customer, document string, cost float64, took time.Duration) (priority.Level, error) {\n"+
				"%sreturn decision.Level, err\n}\n", counting, i, lines)
		}
	}
	file := filepath.Join(t.TempDir(), "lines.go")
	if err := os.WriteFile(file, []byte(program.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, program.String())
	}
}

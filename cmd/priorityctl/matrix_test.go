//go:build !race

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
)

func TestTheMatrixFitsATerminal(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace.csv")
	if err := os.WriteFile(trace, []byte(smallTrace), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"matrix", trace, "-seeds", "1", "-scenario", "overload-equal,cost-skew", "-light", "2"}
	table, order := succeeded(t, "", args...), succeeded(t, "", append(args, "-order")...)
	for line := range strings.Lines(table + order) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, name := range []string{"overload-equal", "cost-skew", "trace-10", "trace-12", "trace-14"} {
		if !strings.Contains(table, "\n"+name+" ") || strings.Count(order, "\n"+name+" ") != 3 {
			t.Errorf("no %s in\n%s\nor not thrice in\n%s", name, table, order)
		}
	}
}

func TestTheSameSeedsGiveTheSameMatrix(t *testing.T) {
	args := []string{"matrix", "-scenario", "cost-skew", "-seeds", "2", "-schedulers", "rule,submit:linear,stride", "-json"}
	stdout := succeeded(t, "", args...)
	if again := succeeded(t, "", args...); again != stdout {
		t.Error("the same seeds give other figures")
	}
	var object struct {
		Figures []struct {
			Regime, Figure string
			Schedulers     []struct {
				Scheduler         string
				Mean, CI95, Ratio float64
			}
			Ideal, Oracle struct{ Scheduler string }
		}
		Regimes []struct {
			Seeds, Servers int
			Schedulers     []struct {
				Measures map[string]struct{ Mean float64 }
			}
		}
		Scores map[string]float64
	}
	if err := json.Unmarshal([]byte(stdout), &object); err != nil {
		t.Fatal(err)
	}
	figure, regime := object.Figures[0], object.Regimes[0]
	if len(object.Figures) != 1 || figure.Regime != "cost-skew" || len(figure.Schedulers) != 3 || figure.Schedulers[1].Scheduler != "submit:linear" ||
		figure.Schedulers[0].CI95 == 0 || figure.Ideal.Scheduler == "" || !strings.HasPrefix(figure.Oracle.Scheduler, "oracle-") ||
		regime.Seeds != 2 || regime.Servers != 16 || regime.Schedulers[0].Measures["longest_wait_s"].Mean == 0 || len(object.Scores) != 3 {
		t.Errorf("got %+v", object)
	}
}

func TestTheMatrixIsPrintedInMarkdown(t *testing.T) {
	markdown := succeeded(t, "", "matrix", "-scenario", "cost-skew", "-seeds", "1", "-schedulers", "rule,submit", "-markdown")
	if !strings.HasPrefix(markdown, "| regime | figure | rule | submit | oracle | ideal | submit ÷ ideal |\n|---|---|---|---|---|---|---|\n| cost-skew | others wait p99 | ") {
		t.Errorf("got\n%s", markdown)
	}
	order := succeeded(t, "", "matrix", "-scenario", "cost-skew", "-seeds", "1", "-schedulers", "rule,submit", "-markdown", "-order")
	if !strings.HasPrefix(order, "| regime | | rule | submit |\n|---|---|---|---|\n| cost-skew | overtaken, % | ") {
		t.Errorf("got\n%s", order)
	}
}

func TestTheMatrixHasAllScenariosThatAreAboutAFigure(t *testing.T) {
	help := succeeded(t, "", "matrix", "-help")
	for _, scenario := range simulation.Scenarios() {
		if strings.Contains(help, "\n  "+scenario.Name+" ") != (len(scenario.Figures) > 0) {
			t.Errorf("%s, with the figures %v, in\n%s", scenario.Name, scenario.Figures, help)
		}
	}
}

func TestAWrongMatrixSaysWhatIsWrong(t *testing.T) {
	for want, args := range map[string][]string{
		`the matrix has no scenario "pauser"`: {"-scenario", "overload,pauser"},
		`there is no scheduler "magic"`:       {"-schedulers", "magic"},
		"0 seeds":                             {"-seeds", "0"},
		"no such file":                        {"no-such-file.csv"},
		"patience is a time":                  {"-discipline", "patience=soon"},
		"service times are":                   {"-service", "slow"},
		"not a whole number":                  {"-thresholds", "-1,x"},
		"none of the others can be":           {"-json", "-markdown"},
	} {
		status, stdout, stderr := called(t, "", append([]string{"matrix"}, args...)...)
		if status != 2 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", args, status, stdout, stderr)
		}
	}
}

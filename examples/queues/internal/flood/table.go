package flood

import (
	"fmt"
	"io"
	"time"
)

// CSV has a line for each document: with levels or without, whose it was, when it arrived
// and how long it waited, in seconds.
func CSV(with, without []Wait) []byte {
	lines := []byte("levels,customer,arrived,waited\n")
	for levels, waits := range map[string][]Wait{"with": with, "without": without} {
		for _, wait := range waits {
			lines = fmt.Appendf(lines, "%s,%s,%.3f,%.3f\n", levels, wait.Customer, wait.Arrived.Seconds(), wait.Waited.Seconds())
		}
	}
	return lines
}

// Table prints who waited how long, with levels and without.
func Table(out io.Writer, with, without []Wait) {
	fmt.Fprintln(out, "                      with levels            without levels")
	fmt.Fprintln(out, "customer  documents   half wait   longest    half wait   longest")
	for _, customer := range customers() {
		left, right := of(with, customer), of(without, customer)
		fmt.Fprintf(out, "%-8s  %9d   %9s %9s    %9s %9s\n", customer, len(left),
			median(left), longest(left), median(right), longest(right))
	}
	fmt.Fprintln(out, "\nHalf of a customer's documents waited no longer than \"half wait\".")
}

func median(sorted []time.Duration) string {
	if len(sorted) == 0 {
		return "-"
	}
	return milliseconds(sorted[(len(sorted)-1)/2])
}

func longest(sorted []time.Duration) string {
	if len(sorted) == 0 {
		return "-"
	}
	return milliseconds(sorted[len(sorted)-1])
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	govulncheck = "golang.org/x/vuln/cmd/govulncheck@v1.9.0"
	database    = "https://vuln.go.dev"
)

// vulnerabilities asks govulncheck, where its data can be reached. GOVULNDB names
// another place for it.
func (r *rehearsal) vulnerabilities(ctx context.Context) error {
	from := os.Getenv("GOVULNDB")
	if from == "" {
		from = database
	}
	if err := reachable(ctx, from); err != nil {
		fmt.Printf("  NOT CHECKED: %v\n", err)
		return nil
	}
	for _, module := range r.modules[:len(published)] {
		said, err := output(ctx, r.copied.at(module.folder), nil, "go", "run", govulncheck, "-db", from, "./...")
		if err != nil {
			return err
		}
		fmt.Printf("  %s: %s\n", module.path(), strings.ReplaceAll(said, "\n", "\n    "))
	}
	return nil
}

func reachable(ctx context.Context, database string) error {
	if !strings.HasPrefix(database, "http") {
		return nil // a folder
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, database+"/index/db.json", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", database, response.Status)
	}
	return nil
}

package priorityotel_test

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/docpriority/priority/internal/markdown"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// The document's Go is copied from the examples, which compile.
func TestTheDocumentShowsTheExamples(t *testing.T) {
	blocks := markdown.Read(t, "../docs/observability.md").Blocks("go")
	if len(blocks) != 3 {
		t.Fatalf("%d Go blocks in the document, want three", len(blocks))
	}
	source := read(t, "example_wiring_test.go") + read(t, "example_test.go")
	body := regexp.MustCompile(`(?m)^\t`).ReplaceAllString(source, "")
	for _, block := range blocks {
		if !strings.Contains(body, block) {
			t.Errorf("no example is what the document shows:\n%s", block)
		}
	}
}

// The wiring that the document shows gives Prometheus exemplars, on a histogram and on a
// counter, and each leads to a span that was exported.
func TestTheDocumentedWiringHasExemplars(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = client.Close() })
	spans := tracetest.NewInMemoryExporter()
	mux := http.NewServeMux()
	store := wire(client, spans, mux)
	t.Cleanup(func() { _ = store.Close(context.WithoutCancel(t.Context())) })
	redistest.Await(t, "Redis decides", func() bool {
		decision, err := store.Next(t.Context(), "acme")
		return err == nil && !decision.Degraded
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	page := scrape(t, server.URL+"/metrics")
	for _, series := range []string{
		`priority_call_duration_seconds_bucket{`,
		`priority_documents_total{`,
	} {
		exemplar := regexp.MustCompile(`(?m)^` + series + `.* # \{[^}]*span_id="(\w+)"[^}]*\} `).FindStringSubmatch(page)
		if exemplar == nil {
			t.Fatalf("%s has no exemplar:\n%s", series, page)
		}
		redistest.Await(t, "the exemplar's span is exported", func() bool {
			return slices.ContainsFunc(spans.GetSpans(), func(span tracetest.SpanStub) bool {
				id := span.SpanContext.SpanID()
				return hex.EncodeToString(id[:]) == exemplar[1] && span.Name == "priority.Next"
			})
		})
	}
	if !strings.HasSuffix(page, "# EOF\n") {
		t.Errorf("it is not OpenMetrics:\n%s", page)
	}
}

// scrape asks for a page as Prometheus does.
func scrape(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, response.Status, err)
	}
	return string(page)
}

// Prometheus is one process of a fleet: its workers count documents and it shows
// Prometheus what they do. It ends by itself.
//
//	go run ./priorityotel/examples/prometheus [-redis address] [-listen address]
//	    [-workers n] [-documents n] [-pause d] [-for d]
//
// Start it several times with the same -redis for a fleet that shares its counts;
// stop that server to see the fleet degrade. Operators steer it by priorityctl with
// -prefix priority-prometheus-example. What it counts expires in the server by itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/priorityotel"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The program ends with one of these.
const (
	succeeded = 0
	failed    = 1
	misused   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("prometheus", flag.ContinueOnError)
	flags.SetOutput(stderr)
	address := flags.String("redis", "", "the `address` of a Redis server (default: a miniredis of its own)")
	listen := flags.String("listen", "127.0.0.1:2112", "the `address` to show /metrics at")
	workers := flags.Int("workers", 4, "how many workers, 1 to 100")
	documents := flags.Int("documents", 2000, "how many documents in all, 0 to 1000000")
	pause := flags.Duration("pause", 50*time.Millisecond, "how long a worker rests after each document")
	lifetime := flags.Duration("for", 2*time.Minute, "how long to run")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return succeeded
	} else if err != nil {
		return misused
	}
	if flags.NArg() > 0 || *workers < 1 || *workers > 100 || *documents < 0 || *documents > 1_000_000 || *pause < 0 || *lifetime <= 0 {
		fmt.Fprintln(stderr, "prometheus: wrong arguments:", args)
		flags.Usage()
		return misused
	}

	ctx, cancel := context.WithTimeout(ctx, *lifetime)
	defer cancel()
	if err := serve(ctx, *address, *listen, load{*workers, *documents, *pause}, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "prometheus:", err)
		return failed
	}
	return succeeded
}

// serve shows the metrics until ctx ends, and meanwhile counts documents.
func serve(ctx context.Context, address, listen string, load load, stdout, stderr io.Writer) error {
	if address == "" {
		server, err := miniredis.Run()
		if err != nil {
			return fmt.Errorf("start miniredis: %w", err)
		}
		defer server.Close()
		address = server.Addr()
	}
	store, metrics, closeStore, err := open(address, slog.New(slog.NewTextHandler(stderr, nil)))
	if err != nil {
		return err
	}
	defer closeStore()

	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	fmt.Fprintf(stdout, "metrics at http://%s/metrics\n", listener.Addr())

	counted, err := load.put(ctx, store)
	if err == nil {
		fmt.Fprintln(stdout, counted)
		select {
		case <-ctx.Done():
		case err = <-ended:
		}
	}
	return errors.Join(err, server.Close())
}

// open returns a member of the fleet, and what shows its metrics and the fleet's.
func open(address string, logger *slog.Logger) (store priority.Store, metrics http.Handler, closeStore func(), err error) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, nil, nil, err
	}
	instrumentation, err := priorityotel.New(&priorityotel.Options{
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)),
		TracerProvider: sdktrace.NewTracerProvider(), // for exemplars; with an exporter they lead to a span
	})
	if err != nil {
		return nil, nil, nil, err
	}

	logging.Disable() // what go-redis would write to stderr is in its errors too
	client := redis.NewClient(&redis.Options{Addr: address})
	member, err := fleet.Join(client, &fleet.Options{
		Store:     priority.RedisOptions{Prefix: prefix},
		Observers: []observe.Func{instrumentation.Observe},
		Fallback:  fallback.Options{OnError: instrumentation.ObserveError},
		Logger:    logger,
	})
	if err != nil {
		return nil, nil, nil, errors.Join(err, client.Close())
	}
	stopFleet, all := instrumentation.ObserveFleet(client, prefix)
	closeStore = func() {
		if stopFleet != nil {
			_ = stopFleet()
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = member.Close(ctx)
		_ = client.Close()
	}
	_, own := instrumentation.ObserveStore(member) // as long as the process lives
	if err := errors.Join(own, all); err != nil {
		closeStore()
		return nil, nil, nil, err
	}
	return member, promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}), closeStore, nil
}

// prefix sets the fleet's counts apart from others in the same server.
const prefix = "priority-prometheus-example"

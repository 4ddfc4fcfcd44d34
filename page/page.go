// Package page is a page on which operators see a fleet on the priority module and
// steer it: an http.Handler for a team's own server, under any prefix.
//
//	operators, err := page.New(client, &page.Options{
//		Store:     workersOptions, // a priority.RedisOptions
//		Authorize: func(r *http.Request) (actor string, ok bool) { … },
//	})
//	http.Handle("/ops/priority/", http.StripPrefix("/ops/priority", operators))
//
// Everybody who can reach it may read: customers' names, counts, the log. Authorize
// decides who may write. The page says the same as priorityctl, in the same words.
package page

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
)

// Page is an http.Handler. All its URLs are relative, so it works at any path that
// ends with a slash, with and without http.StripPrefix, and behind a proxy.
//
// It reads from Redis only while somebody looks at it, and no more often than its
// options say, however many people look. It also keeps a day of history in Redis: a
// sample each minute.
type Page struct {
	options Options
	cache   *cache
	compare *comparisons
	origins *http.CrossOriginProtection
	handler http.Handler
}

// New returns a Page. It waits for nothing. The client is a *redis.Client or a
// *redis.ClusterClient; the caller closes it, after the Page. Nil opts are the
// defaults. An error wraps [priority.ErrInvalid].
func New(client redis.UniversalClient, opts *Options) (*Page, error) {
	if opts == nil {
		opts = &Options{}
	}
	options, err := opts.filled()
	if err != nil {
		return nil, err
	}
	store, err := priority.NewRedisStore(client, &options.Store)
	if err != nil {
		return nil, err
	}
	if options.Server.Address == "" {
		if options.Server, err = serverOf(client); err != nil {
			return nil, err
		}
	}
	if options.Levels == 0 {
		options.Levels = store.Last()
	}
	prefix := cmp.Or(options.Store.Prefix, insight.DefaultPrefix)
	admin, err := control.NewAdmin(client, &control.AdminOptions{Prefix: prefix, Levels: options.Levels})
	if err != nil {
		return nil, err
	}
	p := &Page{options: options, origins: http.NewCrossOriginProtection()}
	own := &insight.Inspector{
		Client: client, Store: store, Options: options.Store, Prefix: prefix, Admin: admin,
		Server: options.Server, Secrets: options.Secrets,
	}
	own.Policy = insight.NamedPolicy{Policy: own.Rules().Policy, Name: "the workers' own options"}
	p.cache = newCache(own, options)
	p.cache.own.PolicyName = p.cache.ownPolicyName
	p.compare = newComparisons(p.cache, options)
	p.cache.background.begin(p.cache.keepDay)
	p.handler = guarded(http.HandlerFunc(p.serve))
	return p, nil
}

// Close ends what still runs in the background, and waits for it until ctx ends.
// Later requests get an error.
func (p *Page) Close(ctx context.Context) error {
	if err := p.cache.background.close(ctx); err != nil {
		return fmt.Errorf("page: close: %w", err)
	}
	return nil
}

// ServeHTTP implements [http.Handler].
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

// serve finds the page that a path names. Only its last part counts, so the page need
// not know its prefix.
func (p *Page) serve(w http.ResponseWriter, r *http.Request) {
	reading, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	v := &visit{Page: p, w: w, r: r, reading: reading}
	if r.URL.Path == "" && v.addSlash() {
		return
	}
	v.name = r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	if serveAsset(w, r, v.name) {
		return
	}
	v.authorize()
	route, known := routes[v.name]
	switch {
	case !known:
		v.notFound()
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && route.get != nil:
		route.get(v)
	case r.Method == http.MethodPost && route.post != nil:
		v.write(route)
	default:
		v.notAllowed(route)
	}
}

// route says what a page does for GET, which changes nothing, and for POST.
type route struct {
	get, post func(*visit)
	reads     bool // post changes nothing either
}

var routes map[string]route

func init() {
	routes = map[string]route{
		"":          {get: (*visit).now},
		"customers": {get: (*visit).search},
		"customer":  {get: (*visit).customer},
		"workers":   {get: (*visit).workers},
		"override":  {get: (*visit).previewOverride, post: (*visit).override},
		"reset":     {get: (*visit).previewReset, post: (*visit).reset},
		"policy":    {get: (*visit).policy},
		"compare":   {get: (*visit).compareVersion, post: (*visit).compareRules, reads: true},
		"apply":     {post: (*visit).apply},
		"log":       {get: (*visit).log},
	}
}

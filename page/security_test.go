package page_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/page"
)

// pages are all that can be looked at.
var pages = []string{
	"", "customers", "workers", "customer?c=acme", "policy", "log", "override?c=acme&kind=pin&level=2&for=1h",
	"reset?c=acme", "compare?version=own", "nothing", "customer", "compare?version=99",
}

// A browser runs, shows and sends nothing but what is from this page.
func TestNothingOfThePageIsFromElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.count("acme", 9)
	foreign := regexp.MustCompile(`(?i)(?:src|href|action)="(?:[a-z]+:|//|/)|<[^>]+\s(?:style|on[a-z]+)=|<style|<script>|<script [^>]*>[^<]|url\(|@import`)
	for _, path := range pages {
		page := w.get(path)
		for header, want := range map[string]string{
			"Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
			"X-Frame-Options":         "DENY",
			"X-Content-Type-Options":  "nosniff",
			"Referrer-Policy":         "same-origin",
			"Cache-Control":           "no-store",
			"Content-Type":            "text/html; charset=utf-8",
		} {
			if got := page.Header.Get(header); got != want {
				t.Errorf("%s: %s is %q, not %q", path, header, got, want)
			}
		}
		if found := foreign.FindString(page.body); found != "" {
			t.Errorf("%s has %q", path, found)
		}
		for _, bad := range []string{"ZgotmplZ", "NaN", "%!", "<no value>"} {
			if strings.Contains(page.body, bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
	}
}

// hostile are customers who try to be more than names.
var hostile = []string{
	"<script>nonsense()</script>",
	`"><img src=x onerror=nonsense()>`,
	"{{.}}' onfocus=nonsense() x='",
	"javascript:nonsense()",
	"line\r\nbreak\x00\t",
	"\u202eright to left",
	"\xff\xfe<b>",
	"100% & ?c=other#fragment+plus;/../",
	" ",
	strings.Repeat("é", 256),
}

// Every customer is shown as text, and every link about one leads to the same one.
func TestEveryCustomerIsSafeAndExact(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for i, customer := range hostile {
		w.count(customer, 3+i)
		must(w.admin.SetOverride(t.Context(), customer, pin(2), time.Hour, control.Change{By: "<b>mary", Why: "<script>why()</script>"}))(t)
	}
	awaitCustomers(w, int64(len(hostile)))
	w.busy(hostile...)
	links := regexp.MustCompile(`href="(customer\?c[^"]+)"`)
	for _, path := range []string{"", "customers", "log", "policy"} {
		page := w.get(path)
		found := make(map[string]bool)
		for _, link := range links.FindAllStringSubmatch(page.body, -1) {
			address := must(url.Parse(html.UnescapeString(link[1])))(t)
			customer := address.Query().Get("c")
			if address.Query().Has("c64") {
				customer = string(must(base64.RawURLEncoding.DecodeString(address.Query().Get("c64")))(t))
			}
			found[customer] = true
		}
		for _, customer := range hostile {
			if !found[customer] {
				t.Errorf("%q: no link to %q", path, customer)
			}
		}
	}
	for i, customer := range hostile {
		exact := "customer?c64=" + base64.RawURLEncoding.EncodeToString([]byte(customer))
		for _, path := range []string{exact, exact + "==", "customer?c=" + url.QueryEscape(customer), strings.Replace(exact, "customer", "reset", 1)} {
			page := w.get(path)
			if strings.Contains(path, "customer?") {
				page.has(t, 200, fmt.Sprintf("%d documents since the last reset", 3+i))
			} else {
				page.has(t, 200, fmt.Sprintf("count %d,", -2-i))
			}
			for _, raw := range []string{"<script>nonsense", "<script>why", "<img", "<b>", "\u202e", "\x00", "\xff"} {
				if strings.Contains(page.body, raw) {
					t.Errorf("%s: %q is in the page", path, raw)
				}
			}
		}
	}
	for _, bad := range []string{"customer", "customer?c=", "customer?c=" + strings.Repeat("x", 513), "customer?c64=*", "customer?c=a&c64=YQ", "reset?c="} {
		w.get(bad).has(t, http.StatusBadRequest, "1 to 512 bytes")
	}
}

// A form names the very customer that its page is about.
func TestAFormIsOfTheVeryCustomer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, customer := range hostile {
		w.count(customer, 5)
		preview := w.get("reset?c64=" + base64.RawURLEncoding.EncodeToString([]byte(customer)))
		name := "c"
		if strings.Contains(preview.body, `name="c64"`) {
			name = "c64"
		}
		fields := regexp.MustCompile(`type="hidden" name="` + name + `" value="([^"]*)"`).FindStringSubmatch(preview.body)
		w.post("reset", name, html.UnescapeString(fields[1]), "why", "a test", "replaces", "0").has(t, http.StatusSeeOther)
		if n := w.client.Exists(t.Context(), w.store.Key(customer)).Val(); n != 0 {
			t.Errorf("%q is not reset", customer)
		}
	}
}

// writes are all that change something.
var writes = []struct{ path, fields string }{
	{"override", "c=acme&kind=pin&level=2&for=1h"},
	{"override", "c=acme&kind=end"},
	{"reset", "c=acme"},
	{"apply", `rules={"thresholds":[-5]}`},
	{"apply", "kind=withdraw"},
	{"apply", "kind=rollback&version=1"},
}

// Nothing is changed by GET, from another site, or by somebody who may not.
func TestOnlyThoseWhoMayChangeAnything(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.count("acme", 9)
	before := state(t, w)
	for _, write := range writes {
		form := must(url.ParseQuery(write.fields + "&why=a+test&replaces=0"))(t)
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			w.do(method, write.path+"?"+form.Encode(), nil, actor, "mary")
		}
		for name, headers := range map[string][]string{
			"nobody":           {"Sec-Fetch-Site", "same-origin"},
			"nobody's script":  {},
			"another site":     {actor, "mary", "Sec-Fetch-Site", "cross-site"},
			"a sibling":        {actor, "mary", "Sec-Fetch-Site", "same-site"},
			"an old browser's": {actor, "mary", "Origin", "http://elsewhere.example"},
			"no origin":        {actor, "mary", "Origin", "null"},
			"a long name":      {actor, strings.Repeat("m", 201), "Sec-Fetch-Site", "same-origin"},
		} {
			answer := w.do(http.MethodPost, write.path, form, headers...)
			if answer.StatusCode != http.StatusForbidden || !strings.Contains(answer.body, "Nothing was changed") {
				t.Errorf("%s of %s: %d\n%s", write.path, name, answer.StatusCode, answer.main())
			}
		}
		for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch} {
			if answer := w.do(method, write.path, form, actor, "mary"); answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Allow") == "" {
				t.Errorf("%s %s: %d", method, write.path, answer.StatusCode)
			}
		}
		// What is in the URL of a form is not what was sent.
		if answer := w.do(http.MethodPost, write.path+"?"+form.Encode(), url.Values{}, actor, "mary", "Sec-Fetch-Site", "same-origin"); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s by its URL: %d", write.path, answer.StatusCode)
		}
	}
	if after := state(t, w); after != before {
		t.Errorf("Redis holds\n%s\nand not\n%s", after, before)
	}
}

// state is all that Redis holds, but for TTLs.
func state(t *testing.T, w *world) string {
	t.Helper()
	var all []string
	keys := must(w.client.Keys(t.Context(), "*").Result())(t)
	for _, key := range keys {
		all = append(all, key+"="+w.client.Dump(t.Context(), key).Val())
	}
	return fmt.Sprintf("%q", all)
}

// Who may not write is shown no form that does.
func TestReadersAreShownNoFormThatWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.count("acme", 9)
	must(w.admin.Apply(t.Context(), control.Rules{}, control.Change{By: "mary", Why: "a test"}))(t)
	forms := regexp.MustCompile(`<form method="post" action="(?:override|reset|apply)"`)
	shown := 0
	for _, path := range pages {
		if found := forms.FindString(w.do(http.MethodGet, path, nil).body); found != "" {
			t.Errorf("%s has %s", path, found)
		}
		shown += len(forms.FindAllString(w.get(path).body, -1))
	}
	if shown < 3 {
		t.Errorf("those who may write are shown %d forms", shown)
	}
	client := w.redis.Client()
	readOnly := must(page.New(client, nil))(t)
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodPost, "/reset", strings.NewReader("c=acme&why=a+test&replaces=0"))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	readOnly.ServeHTTP(recorder, request)
	if recorder.Code != http.StatusForbidden {
		t.Errorf("without Authorize: %d", recorder.Code)
	}
	if err := readOnly.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// What is sent is bounded, whichever way.
func TestWhatIsSentIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	large := strings.Repeat("x", 2<<20)
	w.post("apply", "rules", large, "why", "a test", "replaces", "0").has(t, http.StatusRequestEntityTooLarge, "1 MiB")

	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	file := must(form.CreateFormFile("file", "rules.json"))(t)
	_ = must(file.Write([]byte(large)))(t)
	_ = form.Close()
	request := must(http.NewRequestWithContext(t.Context(), http.MethodPost, w.root+"compare", &body))(t)
	request.Header.Set("Content-Type", form.FormDataContentType())
	response := must(http.DefaultClient.Do(request))(t)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a file: %d", response.StatusCode)
	}
}

// No password is shown, not even where an error quotes one.
func TestNoPasswordIsShown(t *testing.T) {
	t.Parallel()
	const inURL, secret = "swordfish", "hunter2"
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Password: secret, MaxRetries: -1, DialerRetries: 1,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("cannot dial redis://mary:" + inURL + "@counts with " + secret)
		},
	})
	defer client.Close()
	w := mounted(t, must(page.New(client, &page.Options{Secrets: []string{secret}, Authorize: byHeader}))(t))
	told := 0
	for _, path := range pages {
		answer := w.get(path)
		told += strings.Count(answer.body, "cannot dial redis://***@counts with ***")
		if strings.Contains(answer.body, secret) || strings.Contains(answer.body, inURL) {
			t.Errorf("%s shows a password:\n%s", path, answer.main())
		}
	}
	if told == 0 {
		t.Error("no page says what is wrong")
	}
}

func TestMisuseIsAnErrorOfTheConstructor(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}})
	defer ring.Close()
	for name, call := range map[string]func() (*page.Page, error){
		"no client":       func() (*page.Page, error) { return page.New(nil, nil) },
		"a nil client":    func() (*page.Page, error) { return page.New((*redis.Client)(nil), nil) },
		"a ring":          func() (*page.Page, error) { return page.New(ring, nil) },
		"a short while":   func() (*page.Page, error) { return page.New(client, &page.Options{Interval: time.Millisecond}) },
		"no pace":         func() (*page.Page, error) { return page.New(client, &page.Options{Pace: -1}) },
		"too many levels": func() (*page.Page, error) { return page.New(client, &page.Options{Levels: 256}) },
		"no policy": func() (*page.Page, error) {
			return page.New(client, &page.Options{Store: priority.RedisOptions{Policy: priority.Policy{Thresholds: []int64{1, 2}}}})
		},
	} {
		if _, err := call(); err == nil || !strings.Contains(fmt.Sprint(err), "priority: invalid") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

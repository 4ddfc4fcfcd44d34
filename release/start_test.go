package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/licenseclassifier/v2/assets"
)

func pageOf(t *testing.T, name string) []section {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	all, err := sections(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What runs on in the background is there for the next block, and ends with the section.
func TestAPageIsFollowedToTheLetter(t *testing.T) {
	t.Parallel()
	for _, section := range pageOf(t, "start.md") {
		dir := t.TempDir()
		if err := section.follow(t.Context(), dir, []string{"GREETING=hello"}); err != nil {
			t.Errorf("%s: %v", section.title, err)
		}
		id, err := os.ReadFile(filepath.Join(dir, "worker.id"))
		if err != nil {
			continue
		}
		worker, err := strconv.Atoi(strings.TrimSpace(string(id)))
		if err != nil {
			t.Fatal(err)
		}
		for syscall.Kill(worker, 0) == nil && !isDead(worker) {
			if t.Context().Err() != nil {
				t.Fatal("the worker goes on")
			}
			time.Sleep(time.Millisecond) // until the system has ended it
		}
	}
}

// isDead says whether a process waits only for its parent to hear of its end.
func isDead(process int) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(process) + "/stat")
	return err != nil || strings.Contains(string(status), ") Z ")
}

func TestWhatAPageGetsWrongIsToldWithItsLine(t *testing.T) {
	t.Parallel()
	wrong := pageOf(t, "wrong.md")
	for i, says := range []string{
		"line 5: $ echo one\nprints\none\n\nand not\ntwo",
		"line 12: false\nexit status 1",
		"line 20: ../out.txt is not in the folder",
	} {
		wantError(t, wrong[i].follow(t.Context(), t.TempDir(), nil), says)
	}
	for text, says := range map[string]string{
		"## Go\n\n```go\npackage main\n```\n": `line 3: a block of "go" is no command`,
		"## Go\n\n```sh\ntrue\n":              "line 3: the block has no end",
		"```sh\ntrue\n```\n":                  "line 1: the block is in no section",
	} {
		_, err := sections(text)
		wantError(t, err, says)
	}
}

func TestThreeDotsStandForAnyLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		got, want string
		same      bool
	}{
		{"one\ntwo\n", "one\ntwo\n", true},
		{"one \r\ntwo", "one\ntwo\n\n", true},
		{"one\ntwo\nthree\n", "one\n…\nthree\n", true},
		{"one\nthree\n", "one\n…\nthree\n", true},
		{"one\ntwo\n", "…\n", true},
		{"one\ntwo\n", "one\n", false},
		{"two\n", "one\n…\n", false},
		{"a+b\n", "a.b\n", false},
		{"", "", true},
	} {
		if prints(c.got, c.want) != c.same {
			t.Errorf("%q and %q: not %v", c.got, c.want, c.same)
		}
	}
}

func TestNpmFindsOursHereAndAllElseElsewhere(t *testing.T) {
	t.Parallel()
	handler, err := npmRegistry("http://here/", []byte(`{"name": "docpriority", "version": "0.1.0"}`), []byte("packed"), "http://there/path/")
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) (*http.Response, string) {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		body, err := io.ReadAll(recorder.Result().Body)
		if err != nil {
			t.Fatal(err)
		}
		return recorder.Result(), string(body)
	}
	if _, body := get("/docpriority"); !strings.Contains(body, `"latest":"0.1.0"`) || !strings.Contains(body, "http://here/docpriority/-/docpriority.tgz") {
		t.Error(body)
	}
	if _, body := get("/docpriority/-/docpriority.tgz"); body != "packed" {
		t.Error(body)
	}
	if response, _ := get("/@scope%2fbullmq?write=true"); response.Header.Get("Location") != "http://there/path/@scope%2fbullmq?write=true" {
		t.Error(response.Header)
	}
}

func TestLicencesAreReadAndNotGuessed(t *testing.T) {
	t.Parallel()
	texts, err := assets.DefaultClassifier()
	if err != nil {
		t.Fatal(err)
	}
	mit, err := os.ReadFile("../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	gpl, err := assets.ReadLicenseFile("License/GPL-3.0/license.txt")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{string(mit): "MIT", string(gpl): "GPL-3.0", "Do as you like.": ""} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "LICENSE.md"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		found, err := licencesIn(texts, dir)
		if err != nil || strings.Join(found, " ") != want {
			t.Errorf("%.40q has %q, not %q, error %v", text, found, want, err)
		}
	}
}

// Without its data there is no answer, and nobody is told that there is none.
func TestADatabaseThatCannotBeReachedIsToldOf(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	wantError(t, reachable(t.Context(), server.URL), "answers 404 Not Found")
	server.Close()
	wantError(t, reachable(t.Context(), server.URL), "connection refused")
}

package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
)

var (
	//go:embed templates
	templateFiles embed.FS

	//go:embed assets
	assetFiles embed.FS

	// templates has each page within the layout.
	templates = parsed("now", "customers", "customer", "workers", "override", "reset", "policy", "compare", "log", "problem")

	// assetsVersion changes with the assets, so that browsers may cache them.
	assetsVersion = versionOf("style.css", "script.js", "icon.svg")
)

var functions = template.FuncMap{
	"group":       insight.Group,
	"plural":      insight.Plural,
	"plurals":     func(n int, noun string) string { return insight.Plural(int64(n), noun) },
	"percent":     insight.Percent,
	"moment":      insight.Moment,
	"stamp":       func(at time.Time) string { return at.UTC().Format(time.RFC3339) },
	"resets":      insight.Resets,
	"turns":       func() string { return insight.Turns },
	"quoted":      insight.Quoted,
	"shown":       insight.Shown,
	"about":       about,
	"briefly":     briefly,
	"clamped":     clamped,
	"whole":       whole,
	"followed":    func() string { return insight.Span(control.FollowedWithin) },
	"span":        insight.Span,
	"rules":       insight.RulesSummary,
	"customerURL": customerURL,
	"field":       customerField,
	"spark":       spark,
	"bar":         bar,
	"rate":        rateText,
	"bare":        func(load string) string { return strings.TrimPrefix(load, "load ") }, // the heading has the word
	"since":       func(at time.Time) string { return insight.Span(time.Since(at).Round(time.Second)) },
}

// How much of a long text is shown, in runes: its beginning and its end.
const clampedHead, clampedTail = 44, 12

// clamped returns a text for a page: a long text without its middle.
func clamped(text string) string {
	runes := []rune(text)
	if len(runes) <= clampedHead+clampedTail+1 {
		return text
	}
	return string(runes[:clampedHead]) + "…" + string(runes[len(runes)-clampedTail:])
}

// briefly returns a text about a customer, with a long name clamped.
func briefly(text, customer string) string {
	shown := insight.Shown(customer)
	return strings.ReplaceAll(text, shown, clamped(shown))
}

// whole returns the whole text if clamped shortens it, else "".
func whole(text string) string {
	if clamped(text) == text {
		return ""
	}
	return text
}

func parsed(pages ...string) map[string]*template.Template {
	all := make(map[string]*template.Template, len(pages))
	for _, page := range pages {
		files := []string{"templates/layout.gohtml", "templates/parts.gohtml", "templates/" + page + ".gohtml"}
		all[page] = template.Must(template.New(page).Funcs(functions).ParseFS(templateFiles, files...))
	}
	return all
}

// about writes a wait in two digits, as waits are not measured more exactly.
func about(wait time.Duration) string {
	unit := time.Millisecond
	for wait/unit >= 100 && unit < 10*time.Second {
		unit *= 10
	}
	return insight.Span(wait.Round(min(unit, time.Second)))
}

// hidden is a hidden field of a form.
type hidden struct{ Name, Value string }

// customerField is the field that names a customer in a form.
func customerField(customer string) hidden {
	name, value := customerParameter(customer)
	return hidden{name, value}
}

func versionOf(names ...string) string {
	hash := sha256.New()
	for _, name := range names {
		content, err := assetFiles.ReadFile("assets/" + name)
		if err != nil {
			panic(err)
		}
		hash.Write(content)
	}
	return hex.EncodeToString(hash.Sum(nil)[:6])
}

var assetTypes = map[string]string{
	"style.css": "text/css; charset=utf-8",
	"script.js": "text/javascript; charset=utf-8",
	"icon.svg":  "image/svg+xml",
}

// serveAsset sends the style, the script or the icon, and reports whether the name is
// an asset's.
func serveAsset(w http.ResponseWriter, r *http.Request, name string) bool {
	kind, ok := assetTypes[name]
	if !ok {
		return false
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return true
	}
	content, err := assetFiles.ReadFile("assets/" + name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return true
	}
	w.Header().Set("Content-Type", kind)
	if r.URL.Query().Get("v") == assetsVersion {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(content)
	return true
}

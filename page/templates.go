package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/docpriority/priority/internal/insight"
)

var (
	//go:embed templates
	templateFiles embed.FS

	//go:embed assets
	assetFiles embed.FS

	// templates has each page within the layout.
	templates = parsed("now", "customer", "override", "reset", "policy", "compare", "log", "problem")

	// assetsVersion is another one where an asset is, so that browsers may keep them.
	assetsVersion = versionOf("style.css", "script.js", "icon.svg")
)

var functions = template.FuncMap{
	"group":       insight.Group,
	"plural":      insight.Plural,
	"percent":     insight.Percent,
	"moment":      insight.Moment,
	"stamp":       func(at time.Time) string { return at.UTC().Format(time.RFC3339) },
	"resets":      insight.Resets,
	"turns":       func() string { return insight.Turns },
	"quoted":      insight.Quoted,
	"shown":       insight.Shown,
	"span":        insight.Span,
	"rules":       insight.RulesSummary,
	"customerURL": customerURL,
	"field":       customerField,
	"spark":       spark,
	"bar":         bar,
	"chart":       chart,
	"lately":      lately,
	"rate":        rateText,
	"bare":        func(load string) string { return strings.TrimPrefix(load, "load ") }, // the heading says it
	"since":       func(at time.Time) string { return insight.Span(time.Since(at).Round(time.Second)) },
}

func parsed(pages ...string) map[string]*template.Template {
	all := make(map[string]*template.Template, len(pages))
	for _, page := range pages {
		files := []string{"templates/layout.gohtml", "templates/parts.gohtml", "templates/" + page + ".gohtml"}
		all[page] = template.Must(template.New(page).Funcs(functions).ParseFS(templateFiles, files...))
	}
	return all
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
// one of theirs.
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

package main

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// node packs the npm package, and returns the environment of somebody whose npm finds
// it, until end: in a registry on this machine, which sends npm on to the machine's
// own one for all else.
func (r *rehearsal) node(ctx context.Context) (variables []string, end func(), err error) {
	dir, err := r.folder("tarball")
	if err != nil {
		return nil, nil, err
	}
	client := r.copied.at("clients/nodejs")
	name, err := output(ctx, client, nil, "npm", "pack", "--silent", "--pack-destination", dir)
	if err != nil {
		return nil, nil, fmt.Errorf("%w\napt-get install nodejs npm", err)
	}
	tarball, err := os.ReadFile(filepath.Join(dir, name[strings.LastIndexByte(name, '\n')+1:]))
	if err != nil {
		return nil, nil, err
	}
	about, err := r.copied.read("clients/nodejs/package.json")
	if err != nil {
		return nil, nil, err
	}
	registry, err := output(ctx, r.dir, nil, "npm", "config", "get", "registry")
	if err != nil {
		return nil, nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	here := "http://" + listener.Addr().String() + "/"
	handler, err := npmRegistry(here, []byte(about), tarball, registry)
	if err != nil {
		_ = listener.Close()
		return nil, nil, err
	}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(listener) }()
	return []string{
		"npm_config_registry=" + here,
		"npm_config_audit=false",
		"npm_config_fund=false",
		"npm_config_update_notifier=false",
	}, func() { _ = server.Close() }, nil
}

// npmRegistry has one package in one version, and sends who asks for another on.
func npmRegistry(here string, about, tarball []byte, elsewhere string) (http.Handler, error) {
	var manifest map[string]any
	if err := json.Unmarshal(about, &manifest); err != nil {
		return nil, err
	}
	sum := sha512.Sum512(tarball)
	manifest["dist"] = map[string]string{
		"tarball":   here + "docpriority/-/docpriority.tgz",
		"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
	}
	document, err := json.Marshal(map[string]any{
		"name":      manifest["name"],
		"dist-tags": map[string]any{"latest": manifest["version"]},
		"versions":  map[string]any{fmt.Sprint(manifest["version"]): manifest},
	})
	if err != nil {
		return nil, err
	}
	handler := http.NewServeMux()
	serve := func(pattern, kind string, body []byte) {
		handler.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Cache-Control", "no-store") // the next rehearsal has another
			_, _ = w.Write(body)
		})
	}
	serve("GET /docpriority", "application/json", document)
	serve("GET /docpriority/-/docpriority.tgz", "application/octet-stream", tarball)
	handler.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.TrimSuffix(elsewhere, "/")+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	})
	return handler, nil
}

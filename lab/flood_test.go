package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFloodIsDrawn(t *testing.T) {
	const with = "levels,customer,arrived,waited\nwith,bakery,0.5,0.01\nwith,archive,1,1\nwith,archive,1,2\n"
	const without = "without,bakery,0.5,0.01\nwithout,bakery,1.5,2\nwithout,archive,1,1\nwithout,archive,1,1\nwithout,archive,1,1\n"
	for waits, want := range map[string]string{
		with + without: "", with: "the file has nothing without levels", with + "without,bakery,soon,1\n": "invalid syntax", "a,b\nc\n": "wrong number of fields",
	} {
		file := filepath.Join(t.TempDir(), "waits.csv")
		if err := os.WriteFile(file, []byte(waits), 0o600); err != nil {
			t.Fatal(err)
		}
		var svg, complaint strings.Builder
		status := run(t.Context(), terminal{nil, &svg, &complaint}, []string{"flood", file})
		if (status == 0) != (want == "") || !strings.Contains(complaint.String(), want) {
			t.Errorf("exit status %d, %s", status, &complaint)
		}
		if want == "" && (xml.Unmarshal([]byte(svg.String()), new(struct{})) != nil || !strings.Contains(svg.String(), "the same, by level")) {
			t.Errorf("drawn:\n%s", &svg)
		}
	}
}

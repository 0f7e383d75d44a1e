package drover_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestConformance holds that every test which docs/explanation/rancher-clients.md names exists.
func TestConformance(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("docs", "explanation", "rancher-clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, pattern := range []string{"server/api/*_test.go", "server/api/*/*_test.go", "server/auth/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			code, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(code)
		}
	}
	names := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllSubmatch(text, -1)
	if len(names) < 20 {
		t.Errorf("only %d tests are named", len(names))
	}
	for _, name := range names {
		if !strings.Contains(all.String(), "func "+string(name[1])+"(") {
			t.Errorf("docs/explanation/rancher-clients.md names %s, which is no test", name[1])
		}
	}
}

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
	for _, pattern := range []string{"server/api/*_test.go", "server/api/*/*_test.go", "server/auth/*_test.go", "server/people/*_test.go"} {
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

// TestThreatModel holds that each test by which docs/explanation/threat-model.md proves a rule is in a directory that it names there.
func TestThreatModel(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("docs", "explanation", "threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	proofs := regexp.MustCompile("((?:`Test[A-Za-z0-9]+`(?:, )?)+) \\(([^)]*)\\)").FindAllSubmatch(text, -1)
	if len(proofs) < 30 {
		t.Errorf("only %d proofs are found", len(proofs))
	}
	for _, proof := range proofs {
		var code strings.Builder
		for dir := range strings.SplitSeq(string(proof[2]), ", ") {
			files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
			if err != nil || len(files) == 0 {
				t.Errorf("docs/explanation/threat-model.md names %s, where no test is", dir)
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				code.Write(text)
			}
		}
		for name := range strings.SplitSeq(string(proof[1]), ", ") {
			if !strings.Contains(code.String(), "func "+strings.Trim(name, "`")+"(") {
				t.Errorf("docs/explanation/threat-model.md names %s in %s, where it is not", name, proof[2])
			}
		}
	}
}

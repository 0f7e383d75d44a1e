package status

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFailuresOutliveTheAgent(t *testing.T) {
	path := FailuresFile(filepath.Join(t.TempDir(), "ledger"))
	if got, err := ReadFailures(path); got != nil || err != nil {
		t.Errorf("before the first: %v, %v", got, err)
	}
	var all []Failure
	for i := range MaxFailures + 1 {
		all = append(all, Failure{Source: "remote", Plan: "abc", Time: time.Unix(int64(i), 0).UTC(), Instruction: "i", Reason: "why", ExitCode: i, Output: "said\n", Times: i})
	}
	if err := WriteFailures(path, all); err != nil {
		t.Fatal(err)
	}
	got, err := ReadFailures(path)
	if diff := cmp.Diff(all[1:], got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if words := Failed(got[:1], time.Unix(60, 0)); !strings.Contains(words, "plan abc of remote at ") || !strings.Contains(words, "| said") {
		t.Errorf("in words: %s", words)
	}
	for name, content := range map[string]string{"damaged": "{", "too large": `{"failures":[]}` + strings.Repeat(" ", maxFailuresFile)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadFailures(path); got != nil || err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

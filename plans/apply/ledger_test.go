package apply

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/durable"
)

func FuzzReadLedger(f *testing.F) {
	d := Delivery{Source: "remote", ID: "uid-1", Checksum: "ab", Plan: &plans.Plan{
		Files: []plans.File{{Path: "/a"}, {Path: "/b"}}, Instructions: make([]plans.OneTimeInstruction, 2),
	}}
	l := newLedger(d, time.Unix(1.8e9, 0))
	l.Run = "20260101T000000.000000000Z"
	l.Files = l.Files[1:]
	l.Outcome = &outcome{Instruction: 1, Reason: "why", ExitCode: 3}
	whole, err := json.Marshal(l)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	slots := filepath.Join(f.TempDir(), "ledger")
	if err := errors.Join(durable.Rewrite(slots, whole), durable.Rewrite(slots, whole)); err != nil {
		f.Fatal(err)
	}
	written, err := os.ReadFile(slots)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(written)
	f.Add([]byte(`{"schema":1,"run":"20260101T000000.000000000Z","instructions":[null],"outcome":{"instruction":-5}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "ledger")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := readLedger(path)
		if err != nil {
			return
		}
		l.remaining()
		if !l.of(d) {
			return
		}
		// Whatever it says, it can be gone on with, and be written.
		if l.Outcome != nil {
			e := &Engine{Options: Options{WorkDir: t.TempDir(), Limits: Limits{OutputLimit: 1000}}}
			e.result(d, l)
		}
		once, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, once, 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := readLedger(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(l.remaining(), again.remaining()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestALedgerThatPointsOutOfItsPlan: the outcome's instruction is an index.
func TestALedgerThatPointsOutOfItsPlan(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	for _, index := range []string{"2", "-2"} {
		content := `{"schema":1,"run":"20260101T000000.000000000Z","instructions":[{},{}],"outcome":{"instruction":` + index + `}}`
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		var damaged *damagedError
		if _, err := readLedger(path); !errors.As(err, &damaged) {
			t.Errorf("%s: %v", index, err)
		}
	}
}

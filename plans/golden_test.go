package plans_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares with a file, or writes it.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: %s", path, diff)
	}
}

// TestPlansOnTheWire reads each plan of testdata and compares its canonical bytes, which
// must be the same from release to release: a change of them restarts fleets.
func TestPlansOnTheWire(t *testing.T) {
	files, err := filepath.Glob("testdata/plans/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			in, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p, err := plans.Parse(in)
			if err != nil {
				t.Fatal(err)
			}
			out, err := p.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(file, ".json")+".golden", append(bytes.Clone(out), '\n'))
			again, err := plans.Parse(out)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(p, again); diff != "" || !plans.Equal(*p, *again) {
				t.Errorf("not the same after a round trip: %s", diff)
			}
			for range 10 { // maps are walked in another order each time
				if b, err := again.Marshal(); err != nil || !bytes.Equal(b, out) {
					t.Fatalf("other bytes: %s, %v", b, err)
				}
			}
			if plans.Checksum(in) == plans.Checksum(out) && !bytes.Equal(in, out) {
				t.Error("the checksum is not of the exact bytes")
			}
		})
	}
}

// readable renders the data of a Secret for people: packed values unpacked.
func readable(t *testing.T, data map[string][]byte) map[string]any {
	t.Helper()
	shown := map[string]any{}
	for key, value := range data {
		shown[key] = string(value)
		if len(value) == 0 {
			continue
		}
		switch key {
		case plans.KeyAppliedOutput, plans.KeyFailedOutput:
			outputs, err := plans.DecodeOutputs(value)
			if err != nil {
				t.Fatal(err)
			}
			texts := map[string]string{}
			for name, out := range outputs {
				texts[name] = string(out)
			}
			shown[key] = map[string]any{"unpacked": texts}
		case plans.KeyAppliedPeriodicOutput:
			outputs, err := plans.DecodePeriodicOutputs(value)
			if err != nil {
				t.Fatal(err)
			}
			shown[key] = map[string]any{"unpacked": outputs}
		}
	}
	return shown
}

// TestSecretsOnTheWire walks the data of a plan Secret through a success and a failure.
func TestSecretsOnTheWire(t *testing.T) {
	at := time.Date(2026, 11, 21, 0, 13, 5, 123, time.FixedZone("CET", 3600))
	plan := []byte(`{"instructions":[{"name":"step-a","command":"sh","saveOutput":true}]}`)
	inProgress := func(o *plans.Outcome) { o.State, o.Revision = plans.StateInProgress, o.Revision+1 }
	succeeded := func(o *plans.Outcome) {
		o.State, o.AppliedChecksum, o.AppliedOutput = plans.StateSucceeded, plans.Checksum(plan), map[string][]byte{"step-a": []byte("hi\n")}
		o.FailedChecksum, o.FailedOutput, o.FailureCount, o.SuccessCount, o.LastApplyTime = "", nil, 0, o.SuccessCount+1, at
		o.PeriodicOutput = map[string]plans.PeriodicOutput{"beat": {Name: "beat", Stdout: []byte("up\n"), LastSuccessfulRunTime: at}}
		o.ProbeStatuses = map[string]plans.ProbeStatus{"web": {}}
	}
	failed := func(o *plans.Outcome) {
		o.State, o.FailedChecksum, o.FailedOutput = plans.StateFailed, plans.Checksum(plan), map[string][]byte{"step-a": []byte("no\n")}
		o.FailureCount, o.SuccessCount, o.LastApplyTime = o.FailureCount+1, 0, at
	}
	healthy := func(o *plans.Outcome) {
		o.ProbeStatuses = map[string]plans.ProbeStatus{"web": {Healthy: true, SuccessCount: 1}}
	}
	tests := map[string][]func(*plans.Outcome){
		"success": {nil, inProgress, succeeded, healthy},
		"failure": {nil, inProgress, failed, nil, inProgress, succeeded},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			var shown []map[string]any
			var data map[string][]byte
			for _, step := range steps {
				if step == nil { // the server delivers, anew the second time
					data = plans.Deliver(data, plan)
				} else {
					o, err := plans.ReadOutcome(data)
					if err != nil {
						t.Fatal(err)
					}
					step(&o)
					if err := o.Write(data); err != nil {
						t.Fatal(err)
					}
					back, err := plans.ReadOutcome(data)
					if err != nil {
						t.Fatal(err)
					}
					again := map[string][]byte{}
					if err := back.Write(again); err != nil {
						t.Fatal(err)
					}
					for key, value := range again {
						if !bytes.Equal(value, data[key]) {
							t.Errorf("%s is not the same after a round trip: %q, %q", key, data[key], value)
						}
					}
				}
				shown = append(shown, readable(t, data))
			}
			b, err := json.MarshalIndent(shown, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "testdata/secrets/"+name+".golden", append(b, '\n'))
		})
	}
}

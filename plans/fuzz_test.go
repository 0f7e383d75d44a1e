package plans_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drover-project/drover/plans"
)

// frugal fails when f takes more memory than any input may: a Secret ends at one MiB, and
// agents run on small hosts.
func frugal(t *testing.T, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 512<<20 {
		t.Errorf("took %d MiB", took>>20)
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/plans/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p *plans.Plan
		frugal(t, func() {
			var err error
			if p, err = plans.Parse(b); (err == nil) == (p == nil) {
				t.Fatalf("plan %v, error %v", p, err)
			}
		})
		if p == nil {
			return
		}
		for _, file := range p.Files {
			if file.Action == plans.ActionDelete {
				continue
			}
			if _, err := file.Mode(); err != nil {
				t.Errorf("taken, but later: %v", err)
			}
			if _, err := file.Bytes(); err != nil && !file.Directory {
				t.Errorf("taken, but later: %v", err)
			}
		}
		once, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := plans.Parse(once)
		if err != nil {
			if len(once) > plans.MaxSize {
				return // escapes may make it longer
			}
			t.Fatalf("taken, but not taken back: %v", err)
		}
		if twice, err := again.Marshal(); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%s\n%s\n%v", once, twice, err)
		}
	})
}

func FuzzDecodeOutputs(f *testing.F) {
	f.Add(packed(f, `{"a":"b25lCg==","b":null,"c":""}`))
	f.Add(packed(f, "null"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		codec(t, b, plans.DecodeOutputs, plans.EncodeOutputs)
		codec(t, packed(t, string(b)), plans.DecodeOutputs, plans.EncodeOutputs) // past the checksum
	})
}

func FuzzDecodePeriodicOutputs(f *testing.F) {
	f.Add(packed(f, `{"beat":{"name":"beat","stdout":"dXAK","stderr":"","exitCode":-1,"lastSuccessfulRunTime":"Sat Nov 21 00:13:05 UTC 2026","failures":3,"lastFailedRunTime":"no"}}`))
	f.Add([]byte(`{"a":{"lastFailedRunTime":"Mon Jan  1 00:00:00 CET 0001"},"b":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		codec(t, b, plans.DecodePeriodicOutputs, plans.EncodePeriodicOutputs)
		codec(t, packed(t, string(b)), plans.DecodePeriodicOutputs, plans.EncodePeriodicOutputs)
	})
}

func FuzzDecodeProbeStatuses(f *testing.F) {
	f.Add([]byte(`{"a":{"healthy":true,"successCount":1},"b":{},"c":null}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, b []byte) {
		codec(t, b, plans.DecodeProbeStatuses, plans.EncodeProbeStatuses)
	})
}

// codec holds what is true of every codec: it takes any bytes, and what it took it gives
// back, the same each time.
func codec[T any](t *testing.T, b []byte, decode func([]byte) (map[string]T, error), encode func(map[string]T) ([]byte, error)) {
	t.Helper()
	frugal(t, func() {
		first, err := decode(b)
		if err != nil {
			return
		}
		once, err := encode(first)
		if err != nil {
			t.Fatalf("decoded, but not encoded: %v", err)
		}
		second, err := decode(once)
		if err != nil {
			t.Fatalf("encoded, but not decoded: %v", err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Error(diff)
		}
		if twice, err := encode(second); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("other bytes the second time: %v", err)
		}
	})
}

func FuzzReadOutcome(f *testing.F) {
	outputs := packed(f, `{"a":"b25lCg=="}`)
	f.Add("in-progress", "3", "sum", outputs, []byte(nil), outputs, []byte(`{"web":{}}`), "2", "Sat Nov 21 00:13:05 UTC 2026")
	f.Add("", "x", "", []byte("no gzip"), []byte("nor"), []byte("this"), []byte("["), "-1", "never")
	f.Fuzz(func(t *testing.T, state, revision, checksum string, applied, periodic, failed, probes []byte, count, last string) {
		d := data("plan", "{}", "plan-state", state, "plan-revision", revision, "applied-checksum", checksum, "failed-checksum", checksum,
			"failure-count", count, "success-count", count, "last-apply-time", last)
		d[plans.KeyAppliedOutput], d[plans.KeyAppliedPeriodicOutput], d[plans.KeyFailedOutput], d[plans.KeyProbeStatuses] = applied, periodic, failed, probes
		frugal(t, func() {
			first, _ := plans.ReadOutcome(d) // what cannot be read is empty
			written := maps.Clone(d)
			if err := first.Write(written); err != nil {
				t.Fatalf("read, but not written: %v", err)
			}
			second, err := plans.ReadOutcome(written)
			if err != nil {
				t.Fatalf("written, but not read: %v", err)
			}
			if diff := cmp.Diff(first, second, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if string(written["plan"]) != "{}" {
				t.Error("the plan was changed")
			}
			delivery := plans.ReadDelivery(d)
			if delivery.ProbePeriod <= 0 {
				t.Errorf("a period of %v", delivery.ProbePeriod)
			}
		})
	})
}

func FuzzReadHostReport(f *testing.F) {
	plan := []byte("{}")
	f.Add([]byte(`{"plan":"` + plans.Checksum(plan) + `","instruction":"install","output":"a","units":[{"name":"k3s","state":"failed","restarts":3,"lines":["a","b"]}]}`))
	f.Add([]byte(`{"plan":"` + plans.Checksum(plan) + `","pods":[{"name":"etcd","restarts":2,"since":"2026-11-21T12:00:00Z","lines":["\u001b[2J"]}]}`))
	f.Add([]byte(`{"plan":"` + plans.Checksum(plan) + `","since":"9999-12-31T23:59:59-23:59","units":[{"name":"a@b","state":"\u001b[2J","restarts":-1,"lines":["\n"]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		frugal(t, func() {
			r, ok := plans.ReadHostReport(map[string][]byte{plans.KeyPlan: plan, plans.KeyHostReport: b})
			if !ok {
				return
			}
			for _, u := range r.Units {
				if text := u.String(); len(text) > 4000 || bytes.ContainsAny([]byte(text), "\n\r\x1b\x00") {
					t.Errorf("shown: %q", text)
				}
			}
			for _, p := range r.Pods {
				if text := p.String(); len(text) > 4000 || bytes.ContainsAny([]byte(text), "\n\r\x1b\x00") {
					t.Errorf("shown: %q", text)
				}
			}
		})
	})
}

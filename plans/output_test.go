package plans_test

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
)

// packed is what an agent packs, by the gzip of the standard library.
func packed(t testing.TB, plain string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write([]byte(plain)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// bomb unpacks to so many MiB; each member of it is one.
func bomb(t *testing.T, mib int) []byte {
	t.Helper()
	return bytes.Repeat(packed(t, strings.Repeat(" ", 1<<20)), mib)
}

func TestOutputs(t *testing.T) {
	outputs := map[string][]byte{"b": []byte("two\n"), "a": []byte("one\n"), "none": nil, "empty": {}, "binary": {0, 0xff, '\n'}}
	once, err := plans.EncodeOutputs(outputs)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 { // both sides compare bytes to find out whether anything changed
		if again, err := plans.EncodeOutputs(outputs); err != nil || !bytes.Equal(once, again) {
			t.Fatalf("equal content, other bytes: %v", err)
		}
	}
	if once[3] != 0 || !bytes.Equal(once[4:8], []byte{0, 0, 0, 0}) {
		t.Errorf("the gzip header has flags or a time: % x", once[:10])
	}
	got, err := plans.DecodeOutputs(once)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(outputs, got); diff != "" {
		t.Error(diff)
	}
}

// TestOutputsOfOtherWriters decodes what another implementation packed: gzip with a name
// and a time in its header, members in any order and more than one of them.
func TestOutputsOfOtherWriters(t *testing.T) {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	w.Name, w.ModTime, w.Comment = "x", time.Unix(1.7e9, 0), "somebody else's"
	if _, err := w.Write([]byte(` { "b":null, "a" : "b25lCg=="} `)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	half := packed(t, `{"a":`)
	for name, in := range map[string][]byte{"header with a name": buf.Bytes(), "two members": append(half, packed(t, `"b25lCg==","b":null}`)...)} {
		got, err := plans.DecodeOutputs(in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string][]byte{"a": []byte("one\n"), "b": nil}, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestEmptyAndNull(t *testing.T) {
	for name, in := range map[string][]byte{"nothing": nil, "empty": {}, "null": packed(t, "null"), "no members": packed(t, "{}")} {
		outputs, err := plans.DecodeOutputs(in)
		if err != nil || outputs == nil || len(outputs) != 0 {
			t.Errorf("%s: outputs %#v, %v", name, outputs, err)
		}
		periodic, err := plans.DecodePeriodicOutputs(in)
		if err != nil || periodic == nil || len(periodic) != 0 {
			t.Errorf("%s: periodic %#v, %v", name, periodic, err)
		}
	}
	for _, in := range []string{"", "null", "{}"} {
		probes, err := plans.DecodeProbeStatuses([]byte(in))
		if err != nil || probes == nil || len(probes) != 0 {
			t.Errorf("%q: probes %#v, %v", in, probes, err)
		}
	}
	if b, err := plans.EncodeProbeStatuses(nil); err != nil || string(b) != "{}" {
		t.Errorf("%s, %v", b, err)
	}
	none, err := plans.EncodeOutputs(nil)
	if err != nil || !bytes.Equal(none, packed(t, "{}")) {
		t.Errorf("% x, %v", none, err)
	}
}

func TestPeriodicOutputs(t *testing.T) {
	at := time.Date(2026, 11, 21, 0, 13, 5, 0, time.UTC)
	outputs := map[string]plans.PeriodicOutput{
		"never": {Name: "never", Stdout: []byte{}, Stderr: []byte{}},
		"beat":  {Name: "beat", Stdout: []byte("up\n"), Stderr: []byte("no\n"), ExitCode: -1, LastSuccessfulRunTime: at, LastFailedRunTime: at.Add(time.Hour), Failures: 3},
	}
	b, err := plans.EncodePeriodicOutputs(outputs)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	var plain bytes.Buffer
	if _, err := plain.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	want := `{"beat":{"name":"beat","stdout":"dXAK","stderr":"bm8K","exitCode":-1,"lastSuccessfulRunTime":"Sat Nov 21 00:13:05 UTC 2026","failures":3,"lastFailedRunTime":"Sat Nov 21 01:13:05 UTC 2026"},` +
		`"never":{"name":"never","stdout":"","stderr":"","exitCode":0,"lastSuccessfulRunTime":"","failures":0,"lastFailedRunTime":""}}`
	if diff := cmp.Diff(want, plain.String()); diff != "" {
		t.Error(diff)
	}
	got, err := plans.DecodePeriodicOutputs(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(outputs, got); diff != "" {
		t.Error(diff)
	}
}

func TestTimesOnTheWire(t *testing.T) {
	tests := []struct {
		name, in, want string
	}{
		{"UTC", "Sat Nov 21 00:13:05 UTC 2026", "Sat Nov 21 00:13:05 UTC 2026"},
		{"day padded with a space", "Sun Nov  1 00:13:05 UTC 2026", "Sun Nov  1 00:13:05 UTC 2026"},
		{"an unknown zone is taken as UTC", "Sat Nov 21 00:13:05 XYZ 2026", "Sat Nov 21 00:13:05 UTC 2026"},
		{"never", "", ""},
		{"no date", "yesterday", ""},
		{"another layout", "2026-11-21T00:13:05Z", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := packed(t, `{"p":{"lastSuccessfulRunTime":"`+test.in+`"}}`)
			got, err := plans.DecodePeriodicOutputs(in)
			if err != nil {
				t.Fatal(err)
			}
			b, err := plans.EncodePeriodicOutputs(got)
			if err != nil {
				t.Fatal(err)
			}
			want := packed(t, `{"p":{"name":"","stdout":"","stderr":"","exitCode":0,"lastSuccessfulRunTime":"`+test.want+`","failures":0,"lastFailedRunTime":""}}`)
			if !bytes.Equal(b, want) {
				t.Errorf("%v", got)
			}
		})
	}
	// A local time is written in UTC: the abbreviation of a zone says nothing elsewhere.
	local := time.Date(2026, 11, 21, 1, 13, 5, 999, time.FixedZone("CET", 3600))
	b, err := plans.EncodePeriodicOutputs(map[string]plans.PeriodicOutput{"p": {LastFailedRunTime: local}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := plans.DecodePeriodicOutputs(b)
	if err != nil || !got["p"].LastFailedRunTime.Equal(local.Truncate(time.Second)) {
		t.Errorf("%v, %v", got["p"].LastFailedRunTime, err)
	}
}

func TestProbeStatuses(t *testing.T) {
	statuses := map[string]plans.ProbeStatus{"b": {}, "a": {Healthy: true, SuccessCount: 1}, "c": {FailureCount: 2}}
	b, err := plans.EncodeProbeStatuses(statuses)
	if err != nil || string(b) != `{"a":{"healthy":true,"successCount":1},"b":{},"c":{"failureCount":2}}` {
		t.Errorf("%s, %v", b, err)
	}
	got, err := plans.DecodeProbeStatuses(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(statuses, got); diff != "" {
		t.Error(diff)
	}
}

func TestCodecsRefuse(t *testing.T) {
	outputs := func(b []byte) error { _, err := plans.DecodeOutputs(b); return err }
	periodic := func(b []byte) error { _, err := plans.DecodePeriodicOutputs(b); return err }
	probes := func(b []byte) error { _, err := plans.DecodeProbeStatuses(b); return err }
	whole := packed(t, `{"a":"b25lCg=="}`)
	tests := []struct {
		name   string
		decode func([]byte) error
		in     []byte
		want   string
	}{
		{"not gzip", outputs, []byte("plain text"), "decompress instruction outputs: gzip: invalid header"},
		{"one byte", outputs, []byte{0x1f}, "decompress instruction outputs: unexpected EOF"},
		{"cut off", outputs, whole[:len(whole)-5], "decompress instruction outputs: unexpected EOF"},
		{"damaged", outputs, append(bytes.Clone(whole[:len(whole)-6]), 9, 9, 9, 9, 9, 9), "decompress instruction outputs: gzip: invalid checksum"},
		{"not JSON", outputs, packed(t, "hello"), "decode instruction outputs: invalid character 'h' looking for beginning of value"},
		{"not base64", outputs, packed(t, `{"a":"?"}`), "decode instruction outputs: illegal base64 data at input byte 0"},
		{"an array", outputs, packed(t, `[]`), "decode instruction outputs: json: cannot unmarshal array into Go value of type map[string][]uint8"},
		{"a bomb of bytes", outputs, bomb(t, 33), "decompress instruction outputs: more than 33554432 bytes"},
		{"a bomb of records", periodic, packed(t, `{"a":{}`+strings.Repeat(`,"a":{}`, 100_000)+`}`), "decode periodic outputs: more than 100000 objects"},
		{"periodic, not gzip", periodic, []byte("x"), "decompress periodic outputs: unexpected EOF"},
		{"periodic, a string for a number", periodic, packed(t, `{"a":{"failures":"3"}}`), "decode periodic outputs: json: cannot unmarshal string into Go struct field wirePeriodicOutput.failures of type int"},
		{"probes, not JSON", probes, []byte("{"), "decode probe statuses: unexpected end of JSON input"},
		{"probes, a list", probes, []byte("[]"), "decode probe statuses: json: cannot unmarshal array into Go value of type map[string]plans.ProbeStatus"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if err := test.decode(test.in); err == nil || err.Error() != test.want {
				t.Errorf("error %v\nwant  %s", err, test.want)
			}
		})
	}
}

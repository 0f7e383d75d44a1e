package apply_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// TestOutputLinesAreLogged is about a promise to operators, so it looks at the log.
func TestOutputLinesAreLogged(t *testing.T) {
	h := newHost(t)
	var log bytes.Buffer
	h.options.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	d := delivery(t, plans.Plan{Instructions: []plans.OneTimeInstruction{
		shell("talk", `printf 'one\ntw'; sleep 0.05; echo two >&2; sleep 0.05; printf 'o\nunfinished'`),
		shell("long", "head -c 20000 /dev/zero | tr '\\0' x"),
	}})
	r, err := h.engine().Apply(t.Context(), d)
	if err != nil || !r.Succeeded {
		t.Fatal(r, err)
	}
	type line struct{ Source, Plan, Instruction, Stream, Line, Msg string }
	var got []line
	for text := range strings.Lines(log.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		if l.Msg == "output" {
			l.Msg = ""
			got = append(got, l)
		}
	}
	plan := d.Checksum[:12]
	want := []line{
		{"remote", plan, "talk", "stdout", "one", ""},
		{"remote", plan, "talk", "stderr", "two", ""},
		{"remote", plan, "talk", "stdout", "two", ""},
		{"remote", plan, "talk", "stdout", "unfinished", ""},
		{"remote", plan, "long", "stdout", strings.Repeat("x", 16384), ""},
		{"remote", plan, "long", "stdout", strings.Repeat("x", 20000-16384), ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOutputLinesAtDebug(t *testing.T) {
	h := newHost(t)
	var log bytes.Buffer
	h.options.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	h.options.OutputLevel = slog.LevelDebug
	h.apply(plans.Plan{Instructions: []plans.OneTimeInstruction{shell("talk", "echo hush-hush")}})
	if strings.Contains(log.String(), "hush-hush") {
		t.Error(log.String())
	}
}

func TestBaseEnv(t *testing.T) {
	got := apply.BaseEnv([]string{
		"HOME=/root", "LANG=C", "LC_TIME=C", "http_proxy=http://p", "NO_PROXY=a,b", "INSTALL_K3S_MIRROR=x",
		"CATTLE_AGENT_CONFIG=/etc/x", "NOTIFY_SOCKET=/run/x", "KUBECONFIG=/k", "AWS_SECRET_ACCESS_KEY=s", "PATH=/bin", "LD_PRELOAD=/x.so", "=odd",
	})
	want := []string{"HOME=/root", "LANG=C", "LC_TIME=C", "http_proxy=http://p", "NO_PROXY=a,b", "INSTALL_K3S_MIRROR=x"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

package outputstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/drover-project/drover/plans/apply/output"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans/apply"
)

// periodicRun makes events of one run of a periodic instruction.
func periodicRun(f *Feed, id, name string) (emit func(kind apply.EventKind, offset int64, text string)) {
	emit = func(kind apply.EventKind, offset int64, text string) {
		f.Observe(apply.Event{Kind: kind, Source: "remote", ID: id, Instruction: -1, Name: name, Attempt: 1, Offset: offset, Stream: output.Stdout, Data: []byte(text)})
	}
	emit(apply.PeriodicBegan, 0, "")
	return emit
}

// wholeRun is one that printed and ended.
func wholeRun(f *Feed, id, name, text string) {
	emit := periodicRun(f, id, name)
	emit(apply.PeriodicOutput, 0, text)
	emit(apply.PeriodicEnded, 0, "")
}

func withRuns(p Place) Place {
	p.Periodic = true
	return p
}

// TestRunsBesideATry: a reader that wants them gets both, and nothing of a try that goes on is lost
// because a run began after it.
func TestRunsBesideATry(t *testing.T) {
	f := New()
	a := begin(f, "new", 0, 1)
	a.prints(0, output.Stdout, "one")
	wholeRun(f, "r1", "beat", "pulse")
	hangs := periodicRun(f, "r2", "hangs")
	hangs(apply.PeriodicOutput, 0, "up")
	without, with := f.Read(open()), f.Read(withRuns(open()))
	if d := cmp.Diff([]string{"new/0/1 began", "new/0/1 stdout@0 one"}, said(t, without)); d != "" {
		t.Error(d)
	}
	want := []string{
		"new/0/1 began", "new/0/1 stdout@0 one",
		"r1/-1/1 began", "r1/-1/1 stdout@0 pulse", "r1/-1/1 ended 0", "r2/-1/1 began", "r2/-1/1 stdout@0 up",
	}
	if d := cmp.Diff(want, said(t, with)); d != "" {
		t.Error(d)
	}
	a.prints(3, output.Stdout, "two")
	hangs(apply.PeriodicOutput, 2, "down")
	wholeRun(f, "r3", "beat", "pulse")
	want = []string{"new/0/1 stdout@3 two", "r2/-1/1 stdout@2 down", "r3/-1/1 began", "r3/-1/1 stdout@0 pulse", "r3/-1/1 ended 0"}
	if d := cmp.Diff(want, said(t, with)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"new/0/1 stdout@3 two"}, said(t, without)); d != "" {
		t.Error(d)
	}
	only := f.Read(withRuns(Place{Instruction: "beat", Attempt: -1, Only: true}))
	if d := cmp.Diff([]string{"r3/-1/1 began", "r3/-1/1 stdout@0 pulse", "r3/-1/1 ended 0"}, said(t, only)); d != "" {
		t.Error(d)
	}
}

// TestRunsTakeNoTrysPlace, and one that comes often not that of one that comes seldom.
func TestRunsTakeNoTrysPlace(t *testing.T) {
	f := New()
	begin(f, "new", 0, 1).prints(0, output.Stdout, "one")
	wholeRun(f, "seldom", "seldom", "here")
	for i := range 100 {
		wholeRun(f, fmt.Sprintf("often%d", i), "often", "again")
	}
	want := []string{
		"new/0/1 began", "new/0/1 stdout@0 one", "seldom/-1/1 began", "seldom/-1/1 stdout@0 here", "seldom/-1/1 ended 0",
		"often99/-1/1 began", "often99/-1/1 stdout@0 again", "often99/-1/1 ended 0",
	}
	if d := cmp.Diff(want, said(t, f.Read(withRuns(open())))); d != "" {
		t.Error(d)
	}
	for i := range 2 * maxRuns {
		emit := periodicRun(f, "big", fmt.Sprintf("i%d", i))
		emit(apply.PeriodicOutput, 0, strings.Repeat("x", 4*maxRun))
	}
	cost := 0
	for _, r := range f.runs {
		cost += r.cost
	}
	if len(f.runs) > maxRuns || cost > maxRuns*maxRun {
		t.Errorf("%d runs that cost %d bytes", len(f.runs), cost)
	}
}

// TestFollowingRunsAfterALoss: nothing of them comes twice, and the try goes on where it was.
func TestFollowingRunsAfterALoss(t *testing.T) {
	f := New()
	server := httptest.NewServer(f.Handler())
	defer server.Close()
	a := begin(f, "new", 0, 1)
	a.prints(0, output.Stdout, "one\n")
	beat := periodicRun(f, "r1", "beat")
	beat(apply.PeriodicOutput, 0, "pulse\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var bodies []io.Closer
	opened := func(ctx context.Context, place url.Values) (io.ReadCloser, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/v1/output?"+place.Encode(), nil)
		if err != nil {
			return nil, err
		}
		answer, err := server.Client().Do(request)
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, answer.Body)
		return answer.Body, nil
	}
	var got bytes.Buffer
	printer := NewPrinter(&got)
	cut := false
	err := Follow(ctx, withRuns(Place{Attempt: -1, Follow: true}), opened, func(r Record) {
		printer.Print(r)
		switch text := got.String(); {
		case strings.Contains(text, "third"):
			cancel()
		case !cut && strings.Contains(text, "pulse"):
			cut = true
			beat(apply.PeriodicOutput, 6, "more\n")
			beat(apply.PeriodicEnded, 0, "")
			a.prints(4, output.Stdout, "two\n")
			wholeRun(f, "r2", "beat", "third\n")
			if err := bodies[0].Close(); err != nil {
				t.Error(err)
			}
		}
	}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	for _, line := range []string{"i0[stdout]: one\n", "i0[stdout]: two\n", "beat[stdout]: pulse\n", "beat[stdout]: third\n", "instruction i0 of plan"} {
		if n := strings.Count(got.String(), line); n != 1 {
			t.Errorf("%q is there %d times in\n%s", line, n, got.String())
		}
	}
}

// TestPrintingTriesAndRuns: halves of lines wait for each other's end.
func TestPrintingTriesAndRuns(t *testing.T) {
	var got bytes.Buffer
	p := NewPrinter(&got)
	try, run := Key{Source: "remote", ID: "d"}, Key{Source: "remote", ID: "r", Instruction: -1}
	for _, r := range []Record{
		{Kind: Began, Key: run, Name: "beat", Plan: "0123456789abcdef"},
		{Kind: Output, Key: try, Name: "install", Stream: "stdout", Data: []byte("on")},
		{Kind: Output, Key: run, Name: "beat", Stream: "stdout", Data: []byte("pul")},
		{Kind: Output, Key: try, Name: "install", Stream: "stdout", Data: []byte("e\n")},
		{Kind: Ended, Key: run, Name: "beat", ExitCode: 3, Text: "exit code 3"},
	} {
		p.Print(r)
	}
	want := "periodic instruction beat of plan 0123456789ab begins, try 1\ninstall[stdout]: one\nbeat[stdout]: pul\nperiodic instruction beat FAILED with exit code 3: exit code 3\n"
	if d := cmp.Diff(want, got.String()); d != "" {
		t.Error(d)
	}
}

package outputstream

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/drover-project/drover/plans/apply/output"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans/apply"
)

// try makes events of one try of an instruction.
type try struct {
	f *Feed
	e apply.Event
}

func begin(f *Feed, id string, instruction, attempt int) try {
	t := try{f, apply.Event{Source: "remote", ID: id, Checksum: "sum-" + id, Instruction: instruction, Name: fmt.Sprintf("i%d", instruction), Attempt: attempt}}
	t.emit(apply.Event{Kind: apply.InstructionBegan})
	return t
}

func (t try) emit(e apply.Event) {
	e.Source, e.ID, e.Checksum, e.Instruction, e.Name, e.Attempt = t.e.Source, t.e.ID, t.e.Checksum, t.e.Instruction, t.e.Name, t.e.Attempt
	t.f.Observe(e)
}

func (t try) prints(offset int64, s output.Stream, text string) {
	t.emit(apply.Event{Kind: apply.InstructionOutput, Offset: offset, Stream: s, Data: []byte(text)})
}

func (t try) ends(code int) {
	t.emit(apply.Event{Kind: apply.InstructionEnded, ExitCode: code})
}

func open() Place { return Place{Attempt: -1} }

// said is what a reader gets, in short.
func said(t *testing.T, r *Reader) (all []string) {
	t.Helper()
	for {
		record, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, short(record))
	}
}

func short(r Record) string {
	where := fmt.Sprintf("%s/%d/%d ", r.ID, r.Instruction, r.Attempt)
	switch r.Kind {
	case Output:
		return fmt.Sprintf("%s%s@%d %s", where, r.Stream, r.Offset, r.Data)
	case Gone:
		return fmt.Sprintf("%sgone@%d %d", where, r.Offset, r.Bytes)
	case Ended:
		return fmt.Sprintf("%sended %d", where, r.ExitCode)
	case Progress:
		return where + "progress " + r.Text
	}
	return where + r.Kind
}

func TestPlaces(t *testing.T) {
	f := New()
	begin(f, "old", 0, 1).ends(0)
	a := begin(f, "new", 0, 1)
	a.prints(0, output.Stdout, "one ")
	a.prints(4, output.Stdout, "two")
	a.prints(7, output.Stderr, "three")
	a.emit(apply.Event{Kind: apply.Progress, Text: "layer 1"})
	a.ends(0)
	b := begin(f, "new", 1, 1)
	b.prints(0, output.Stdout, "lost")
	c := begin(f, "new", 1, 2)
	c.prints(0, output.Stdout, "again")
	tests := []struct {
		name  string
		place Place
		want  []string
	}{
		{"the newest delivery", open(), []string{
			"new/0/1 began", "new/0/1 progress layer 1", "new/0/1 stdout@0 one two", "new/0/1 stderr@7 three", "new/0/1 ended 0",
			"new/1/1 began", "new/1/1 stdout@0 lost", "new/1/2 began", "new/1/2 stdout@0 again"}},
		{"the newest try of an instruction", Place{Instruction: "i1", Attempt: -1, Only: true}, []string{"new/1/2 began", "new/1/2 stdout@0 again"}},
		{"by its index", Place{Instruction: "instructions[1]", Attempt: -1}, []string{"new/1/2 began", "new/1/2 stdout@0 again"}},
		{"one try and those after it", Place{Instruction: "1", Attempt: 1, Only: true}, []string{
			"new/1/1 began", "new/1/1 stdout@0 lost", "new/1/2 began", "new/1/2 stdout@0 again"}},
		{"an earlier delivery", Place{ID: "old", Attempt: -1, Instruction: "0", Only: true}, []string{"old/0/1 began", "old/0/1 ended 0"}},
		{"within a piece", Place{Source: "remote", ID: "new", Instruction: "0", Attempt: 1, Offset: 5, Only: true}, []string{
			"new/0/1 progress layer 1", "new/0/1 stdout@5 wo", "new/0/1 stderr@7 three", "new/0/1 ended 0"}},
		{"an offset counts for the first try only", Place{Instruction: "1", Attempt: -1, Offset: 2}, []string{"new/1/2 stdout@2 ain"}},
		{"a place that is over", Place{Source: "remote", ID: "older", Instruction: "0", Attempt: 1, Offset: 5}, []string{
			"old/0/1 began", "old/0/1 ended 0",
			"new/0/1 began", "new/0/1 progress layer 1", "new/0/1 stdout@0 one two", "new/0/1 stderr@7 three", "new/0/1 ended 0",
			"new/1/1 began", "new/1/1 stdout@0 lost", "new/1/2 began", "new/1/2 stdout@0 again"}},
		{"an instruction that does not exist", Place{Instruction: "none", Attempt: -1}, nil},
		{"another source", Place{Source: "x.plan", Attempt: -1}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, said(t, f.Read(tt.place))); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestTooLate(t *testing.T) {
	f := New()
	a := begin(f, "d", 0, 1)
	line := strings.Repeat("x", 1023) + "\n"
	const printed = 1000 << 10
	for at := int64(0); at < printed; at += 1 << 10 {
		a.prints(at, output.Stdout, line)
	}
	r := f.Read(open())
	var gone, got int64
	for {
		record, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		gone += record.Bytes
		if record.Kind == Output && record.Offset != gone+got {
			t.Fatalf("offset %d after %d gone and %d read", record.Offset, gone, got)
		}
		got += int64(len(record.Data))
	}
	if gone+got != printed || gone == 0 {
		t.Errorf("%d gone and %d read of %d", gone, got, printed)
	}
	if got < maxTrack/2 || got > maxTrack {
		t.Errorf("%d bytes are kept", got)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	f := New()
	for i := range 3 * maxTracks {
		a := begin(f, "d", i, 1)
		for at := range int64(20_000) { // one byte at a time is the worst
			a.prints(at, output.Stream(1+at%2), "x")
		}
	}
	cost := 0
	for _, track := range f.tracks {
		cost += track.cost
		actual := 0
		for _, p := range track.pieces {
			actual += cap(p.data) + pieceCost
		}
		if actual != track.cost {
			t.Errorf("a track holds %d bytes and counts %d", actual, track.cost)
		}
	}
	if len(f.tracks) > maxTracks || cost > maxTracks*maxTrack {
		t.Errorf("%d tracks, %d bytes", len(f.tracks), cost)
	}
}

func TestBytesThatWereNotKept(t *testing.T) {
	f := New()
	a := begin(f, "d", 0, 1)
	a.prints(0, output.Stdout, "head")
	a.prints(100, output.Stdout, "tail")
	want := []string{"d/0/1 began", "d/0/1 stdout@0 head", "d/0/1 gone@4 96", "d/0/1 stdout@100 tail"}
	if d := cmp.Diff(want, said(t, f.Read(open()))); d != "" {
		t.Error(d)
	}
	if tail := string(f.Tail(Key{"remote", "d", 0, 1}, 6)); tail != "adtail" {
		t.Errorf("the tail is %q", tail)
	}
}

// A restarted agent reports the output of a running instruction from its beginning.
func TestReaderOutlivesTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := New()
		begin(before, "d", 0, 1).prints(0, output.Stdout, "hello ")
		r := before.Read(open())
		r.Next(t.Context())
		got, err := r.Next(t.Context())
		if err != nil || string(got.Data) != "hello " {
			t.Fatalf("%q, %v", got.Data, err)
		}
		after := New()
		place := Place{Source: got.Source, ID: got.ID, Instruction: "0", Attempt: got.Attempt, Offset: got.Offset + int64(len(got.Data)), Follow: true, Only: true}
		records := make(chan []string)
		go func() { records <- said(t, after.Read(place)) }()
		synctest.Wait()
		other := try{after, apply.Event{Source: "x.plan", ID: "y", Name: "other", Attempt: 1}}
		other.emit(apply.Event{Kind: apply.InstructionBegan})
		a := begin(after, "d", 0, 1)
		a.prints(0, output.Stdout, "hel")
		a.prints(3, output.Stdout, "lo world")
		a.prints(3, output.Stdout, "lo")
		a.ends(3)
		if d := cmp.Diff([]string{"d/0/1 stdout@6 world", "d/0/1 ended 3"}, <-records); d != "" {
			t.Error(d)
		}
	})
}

func TestFollow(t *testing.T) {
	f := New()
	server := httptest.NewServer(f.Handler())
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"?follow=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := server.Client().Do(request) // the header comes before there is anything to send
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	want := func(want string) {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the answer ended, want %s: %v", want, lines.Err())
		}
		var r Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil || short(r) != want {
			t.Errorf("%s, %v; want %s", short(r), err, want)
		}
	}
	a := begin(f, "d", 0, 1)
	want("d/0/1 began")
	for at := int64(0); at < 100; at += 2 {
		a.prints(at, output.Stdout, "x\n")
		want(fmt.Sprintf("d/0/1 stdout@%d x\n", at))
	}
	a.ends(0)
	want("d/0/1 ended 0")
	begin(f, "e", 0, 1)
	want("e/0/1 began")
}

func TestParameters(t *testing.T) {
	for query, want := range map[string]string{
		"attempt=-1":                           `attempt "-1" is not a number such as 1`,
		"offset=x":                             `offset "x" is not a number of bytes`,
		"follow=maybe":                         `follow "maybe" is neither 1 nor 0`,
		"source=" + strings.Repeat("x", 600):   "source has more than 512 bytes",
		"source=a&id=b&offset=12&only=1&x=y":   "",
		"instruction=install&attempt=2":        "",
		"offset=9223372036854775808&attempt=1": `offset "9223372036854775808" is not a number of bytes`,
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if _, err := ParsePlace(q); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

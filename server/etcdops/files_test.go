package etcdops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/harbour"
	"github.com/drover-project/drover/test/s3server"
)

// hostsOf are the agents of hosts by the names of their machines; those that are not there are away.
type hostsOf map[string]http.HandlerFunc

func (h hostsOf) files(b *bench) *Files {
	name := func(s records.Subject) string { return strings.TrimPrefix(string(s.Machine()), "fleet-default/") }
	return &Files{
		State: b.State,
		Tunnel: func(s records.Subject) observed.Tunnel {
			if h[name(s)] == nil {
				return observed.Tunnel{Since: noon}
			}
			return observed.Tunnel{Connected: true}
		},
		Ask: func(ctx context.Context, s records.Subject, path string, header http.Header) (*http.Response, error) {
			serve := h[name(s)]
			if serve == nil {
				return nil, errors.New("no tunnel")
			}
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://drover-agent"+path, nil)
			if err != nil {
				return nil, err
			}
			r.Header = header.Clone()
			w := httptest.NewRecorder()
			serve(w, r)
			return w.Result(), nil
		},
	}
}

// file is a host that has the file of any snapshot.
func file(content string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"`+content[:1]+`"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
	}
}

// refuses is a host that answers with an error.
func refuses(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, status) }
}

func (b *bench) open(f *Files, request FileRequest) (*File, string, error) {
	b.Helper()
	d, _ := b.Clusters.Get(string(key))
	opened, err := f.Open(b.Context(), d.Value, request)
	if err != nil {
		return nil, "", err
	}
	defer opened.Close()
	var text bytes.Buffer
	if err := opened.Send(b.Context(), &text); err != nil {
		b.Error(err)
	}
	return opened, text.String(), nil
}

// TestFileOfASnapshot comes from the first place that gives it, and where none does each says why.
func TestFileOfASnapshot(t *testing.T) {
	b := newBench(t)
	nine := func(s *records.Snapshot) { s.Size = 9 }
	b.Snapshot("one", "m1", nine)
	b.Snapshot("one", "m2", nine)
	b.Snapshot("alone", "m2", nine)
	b.Snapshot("left", "m9", nine)
	b.Snapshot("failed", "m1", func(s *records.Snapshot) { s.Fault = "no space left" })
	b.Snapshot("unknown", "m1", func(s *records.Snapshot) { s.Size = 0 })
	missing := refuses(404, "/d/one is not there")
	for _, tc := range []struct {
		name    string
		hosts   hostsOf
		request FileRequest
		from    string // the machine; empty for none
		away    bool
		says    string
	}{
		{"the first host", hostsOf{"m1": file("123456789"), "m2": file("abcdefghi")}, FileRequest{Snapshot: "one"}, "m1", false, "123456789"},
		{"the one that is wanted", hostsOf{"m1": file("123456789"), "m2": file("abcdefghi")}, FileRequest{Snapshot: "one", Machine: "m2"}, "m2", false, "abcdefghi"},
		{"the first is away", hostsOf{"m2": file("abcdefghi")}, FileRequest{Snapshot: "one"}, "m2", false, "abcdefghi"},
		{"the first has it no more", hostsOf{"m1": missing, "m2": file("abcdefghi")}, FileRequest{Snapshot: "one"}, "m2", false, "abcdefghi"},
		{"the first has another one", hostsOf{"m1": file("1234"), "m2": file("abcdefghi")}, FileRequest{Snapshot: "one"}, "m2", false, "abcdefghi"},
		{"of no known size", hostsOf{"m1": file("1234")}, FileRequest{Snapshot: "unknown"}, "m1", false, "1234"},
		{"both are away", nil, FileRequest{Snapshot: "one"}, "", true,
			"snapshot one cannot be had: on machine m1: its host has not been connected since 2026-01-02T12:00:00Z; switch it on, or see there what systemctl status rancher-system-agent says; on machine m2: its host has not"},
		{"gone and away", hostsOf{"m1": missing}, FileRequest{Snapshot: "one"}, "", true, "on machine m1: the file is gone: /d/one is not there; on machine m2: its host"},
		{"gone everywhere", hostsOf{"m1": missing, "m2": missing}, FileRequest{Snapshot: "one"}, "", false, "on machine m2: the file is gone"},
		{"cut", hostsOf{"m2": file("1234")}, FileRequest{Snapshot: "alone"}, "", false, "the file has 4 bytes, and the cluster lists it with 9"},
		{"an old agent", hostsOf{"m2": refuses(404, "404 page not found")}, FileRequest{Snapshot: "alone"}, "", false, "its agent is too old to send it; update the agent, or copy /d/alone from the host"},
		{"a busy host", hostsOf{"m2": refuses(429, "2 snapshots are sent already")}, FileRequest{Snapshot: "alone"}, "", true, "on machine m2: 2 snapshots are sent already"},
		{"a host that refuses", hostsOf{"m2": refuses(403, "it is a symbolic link")}, FileRequest{Snapshot: "alone"}, "", false, "its agent does not send it: it is a symbolic link"},
		{"a machine that is gone", nil, FileRequest{Snapshot: "left"}, "", false, "the cluster has no such machine any more; if its host is still there, copy /d/left from it"},
		{"one that failed", nil, FileRequest{Snapshot: "failed"}, "", false, "it could not be taken: no space left"},
		{"no such", nil, FileRequest{Snapshot: "none"}, "", false, `cluster harbour has no snapshot "none"; drover snapshots ls harbour shows`},
		{"not there", nil, FileRequest{Snapshot: "alone", Machine: "m1"}, "", false, `has no snapshot "alone" at m1`},
		{"a path", hostsOf{"m1": file("123456789")}, FileRequest{Snapshot: "/d/one"}, "", false, "has no snapshot"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opened, text, err := b.open(tc.hosts.files(b), tc.request)
			none, refused := errors.AsType[*NoFileError](err)
			switch {
			case tc.from == "" && (!refused || none.Away != tc.away || !strings.Contains(none.Reason, tc.says)):
				t.Errorf("%v", err)
			case tc.from != "" && (err != nil || opened.Snapshot.Machine != tc.from || text != tc.says || opened.Size != int64(len(text))):
				t.Errorf("%+v %q, %v", opened, text, err)
			}
		})
	}
}

// TestRestOfAFile comes from the host where it began, as long as that has the same file.
func TestRestOfAFile(t *testing.T) {
	b := newBench(t)
	nine := func(s *records.Snapshot) { s.Size = 9 }
	b.Snapshot("one", "m1", nine)
	b.Snapshot("one", "m2", nine)
	hosts := hostsOf{"m1": file("123456789"), "m2": file("abcdefghi")}
	for _, tc := range []struct {
		name, tag string
		offset    int64
		without   string // the host that is away
		want      string
		from      int64
	}{
		{"the rest", "m2.a", 4, "", "efghi", 4},
		{"of another file", "m2.x", 4, "", "abcdefghi", 0},
		{"of a host that is away", "m2.a", 4, "m2", "123456789", 0},
		{"of nothing that is known", "s3.a", 4, "", "123456789", 0},
		{"behind the end", "m2.a", 9, "", "abcdefghi", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			there := hostsOf{}
			for name, serve := range hosts {
				if name != tc.without {
					there[name] = serve
				}
			}
			opened, text, err := b.open(there.files(b), FileRequest{Snapshot: "one", Offset: tc.offset, Tag: tc.tag})
			if err != nil || text != tc.want || opened.Offset != tc.from || opened.Size != 9 {
				t.Errorf("%q from %+v, %v", text, opened, err)
			}
		})
	}
}

// TestFileInS3 is asked for when no host gives it.
func TestFileInS3(t *testing.T) {
	b := newBench(t)
	end, settings, put := harbour.S3(t, "../..")
	b.Keys(s3server.AccessKey, s3server.SecretKey)
	b.Bucket(&settings)
	put("a/one", "", 4128)
	put("a/cut", "", 100)
	in := func(machine string) func(*records.Snapshot) {
		return func(s *records.Snapshot) { s.Size, s.Machine, s.SHA256 = 4128, machine, "aa" }
	}
	b.Snapshot("one", "m1", in("m1"))
	for _, name := range []string{"one", "cut", "removed"} {
		b.Snapshot(name, "s3", in("s3"))
	}
	local := strings.Repeat("x", 4128)
	if opened, text, err := b.open(hostsOf{"m1": file(local)}.files(b), FileRequest{Snapshot: "one"}); err != nil || text != local || opened.Tag != "m1.x" {
		t.Errorf("%+v, %v", opened, err)
	}
	opened, text, err := b.open(hostsOf{}.files(b), FileRequest{Snapshot: "one"})
	if err != nil || text != string(make([]byte, 4128)) || opened.Snapshot.Machine != records.SnapshotInS3 || opened.Tag != "" || opened.SHA256 != "aa" {
		t.Errorf("%d bytes, %+v, %v", len(text), opened, err)
	}
	refused := func(name, want string, away bool) {
		t.Helper()
		_, _, err := b.open(hostsOf{}.files(b), FileRequest{Snapshot: name, Machine: "s3"})
		if none, ok := errors.AsType[*NoFileError](err); !ok || none.Away != away || !strings.Contains(none.Reason, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused("cut", "the file has 100 bytes, and the cluster lists it with 4128", false)
	refused("removed", "does not have it any more", false)
	b.Keys("", "")
	refused("one", "in S3", false)
	b.Keys(s3server.AccessKey, s3server.SecretKey)
	if err := end(); err != nil {
		t.Fatal(err)
	}
	refused("one", "nothing listens there", true)
	b.Bucket(nil)
	refused("one", "the cluster has no bucket any more", false)
}

// TestLostWay: what was not sent whole is an error, or less than its size.
func TestLostWay(t *testing.T) {
	b := newBench(t)
	b.Snapshot("one", "m1", func(s *records.Snapshot) { s.Size = 9 })
	f := hostsOf{"m1": file("123456789")}.files(b)
	ask := f.Ask
	f.Ask = func(ctx context.Context, s records.Subject, path string, header http.Header) (*http.Response, error) {
		answer, err := ask(ctx, s, path, header)
		if err == nil {
			answer.Body = io.NopCloser(io.MultiReader(strings.NewReader("1234"), broken{}))
		}
		return answer, err
	}
	d, _ := b.Clusters.Get(string(key))
	opened, err := f.Open(t.Context(), d.Value, FileRequest{Snapshot: "one"})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	var text bytes.Buffer
	if err := opened.Send(t.Context(), &text); err == nil || text.String() != "1234" {
		t.Errorf("%q, %v", text.String(), err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, fmt.Errorf("the tunnel ended") }

package download

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/client"
)

const content = "0123456789"

func start(t *testing.T, serve http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewTLSServer(serve)
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{Server: server.URL, Token: "t", CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// whole is a server that has the file.
func whole(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"m1.`+text[:1]+`"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
	}
}

// cuts is a server that has the file and ends after some bytes, the first times.
func cuts(times int32, after int) http.HandlerFunc {
	var asked atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > times {
			whole(content)(w, r)
			return
		}
		w.Header().Set("ETag", `"m1.0"`)
		w.Header().Set("Content-Length", "10")
		_, _ = w.Write([]byte(content[:after])) // what is missing of the length ends the connection
	}
}

// files are what there is in a directory, with what is in it.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %04o", e.Name(), info.Mode().Perm())
		}
		all[e.Name()] = string(text)
	}
	return all
}

func TestToFile(t *testing.T) {
	sum := sha256.Sum256([]byte(content))
	hash := hex.EncodeToString(sum[:])
	with := func(name, value string, serve http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(name, value)
			serve(w, r)
		}
	}
	damaged := func(context.Context, *os.File, int64) error { return errors.New("it is damaged") }
	for _, tc := range []struct {
		name    string
		serve   http.HandlerFunc
		before  map[string]string
		request Request
		after   map[string]string
		err     string
	}{
		{"whole", whole(content), nil, Request{}, map[string]string{"f": content}, ""},
		{"with its checksum", with(sumHeader, strings.ToUpper(hash), whole(content)), nil, Request{}, map[string]string{"f": content}, ""},
		{"with another checksum", with(sumHeader, strings.Repeat("0", 64), whole(content)), nil, Request{}, map[string]string{}, "and the one that was taken has 000"},
		{"that is damaged", whole(content), nil, Request{Check: damaged}, map[string]string{}, "it is damaged; it was removed again"},
		{"there is one", whole(content), map[string]string{"f": "old"}, Request{}, map[string]string{"f": "old"}, "--force replaces it"},
		{"replaced", whole(content), map[string]string{"f": "old"}, Request{Replace: true}, map[string]string{"f": content}, ""},
		{"replaced by a damaged one", whole(content), map[string]string{"f": "old"}, Request{Replace: true, Check: damaged}, map[string]string{"f": "old"}, "it is damaged"},
		{"cut off once", cuts(1, 4), nil, Request{}, map[string]string{"f": content}, ""},
		{"continued", whole(content), map[string]string{"f.m1.0.part": "0123"}, Request{}, map[string]string{"f": content}, ""},
		{"continued where all was there", whole(content), map[string]string{"f.m1.0.part": content}, Request{}, map[string]string{"f": content}, ""},
		{"the beginning of another file", whole(content), map[string]string{"f.m1.x.part": "abcd"}, Request{}, map[string]string{"f": content}, ""},
		{"others' files", whole(content), map[string]string{"f.part": "x", "g.m1.0.part": "0123", "f.a b.part": "y"}, Request{}, map[string]string{"f": content, "f.part": "x", "g.m1.0.part": "0123", "f.a b.part": "y"}, ""},
		{"of no tag", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(content)) }, nil, Request{}, map[string]string{"f": content}, ""},
		{"a tag that is a path", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"../../x"`)
			_, _ = w.Write([]byte(content))
		}, nil, Request{}, map[string]string{"f": content}, ""},
		{"refused", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "its host is away", http.StatusServiceUnavailable)
		}, nil, Request{}, map[string]string{}, "its host is away"},
		{"refused in the middle", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "its host is away", http.StatusServiceUnavailable)
		},
			map[string]string{"f.m1.0.part": "0123"}, Request{}, map[string]string{"f.m1.0.part": "0123"}, "its host is away; 4 bytes are in"},
		{"another part than was asked for", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"m1.0"`)
			w.Header().Set("Content-Range", "bytes 7-9/10")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write([]byte("789"))
		}, map[string]string{"f.m1.0.part": "0123"}, Request{}, map[string]string{"f.m1.0.part": "0123"}, "another part of the file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range tc.before {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			tc.request.Path, tc.request.To = "/file", filepath.Join(dir, "f")
			done, err := ToFile(t.Context(), start(t, tc.serve), tc.request)
			if tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) || tc.err == "" && (err != nil || done.Bytes != 10 || done.SHA256 != hash) {
				t.Errorf("%+v, %v", done, err)
			}
			if diff := cmp.Diff(tc.after, files(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestEndedInTheMiddle: what has come stays, and is all that is asked for no more.
func TestEndedInTheMiddle(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := Request{Path: "/file", To: filepath.Join(dir, "f"), Say: func(string) { cancel() }} // Ctrl-C when it is cut off
	if _, err := ToFile(ctx, start(t, cuts(1, 4)), w); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff(map[string]string{"f.m1.0.part": "0123"}, files(t, dir)); diff != "" {
		t.Error(diff)
	}
	asked := ""
	serve := func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Get("Range")
		whole(content)(w, r)
	}
	w.Say = nil
	if _, err := ToFile(t.Context(), start(t, serve), w); err != nil || asked != "bytes=4-" {
		t.Errorf("%q, %v", asked, err)
	}
	if diff := cmp.Diff(map[string]string{"f": content}, files(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// TestOneAtATime: two programs do not write into one file.
func TestOneAtATime(t *testing.T) {
	to := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(to+".m1.0.part", []byte("0123"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := begun(to)
	if err != nil {
		t.Fatal(err)
	}
	defer first.close()
	if _, err := ToFile(t.Context(), start(t, whole(content)), Request{Path: "/file", To: to}); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("%v", err)
	}
}

func TestToWriter(t *testing.T) {
	for _, tc := range []struct {
		name  string
		serve http.HandlerFunc
		out   string
		err   string
	}{
		{"whole", whole(content), content, ""},
		{"cut off", cuts(1, 4), "0123", "cut off after 4 bytes"},
		{"refused", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 404) }, "", "no"},
		{"another one", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(sumHeader, "00")
			whole(content)(w, r)
		}, content, "the one that was taken has 00"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			_, err := ToWriter(t.Context(), start(t, tc.serve), "/file", &out)
			if out.String() != tc.out || tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("%q, %v", out.String(), err)
			}
		})
	}
}

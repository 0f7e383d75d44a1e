package versions

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const newer = `{"date":"2027-01-01","sets":{"x":{"agentArgs":{"new-arg":{"type":"string"}}}},"releases":{"k3s":{"x":["v1.40.0+k3s1"]}}}`

// mirror answers with a document.
type mirror struct {
	text, etag string
	status     int
	asked      []string // If-None-Match of each request
}

func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.asked = append(m.asked, r.Header.Get("If-None-Match"))
	if m.status != 0 {
		w.WriteHeader(m.status)
		return
	}
	w.Header().Set("ETag", m.etag)
	if m.etag != "" && r.Header.Get("If-None-Match") == m.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = io.WriteString(w, m.text) // the client sees what is missing
}

func open(t *testing.T, location, dir string) (*Source, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	s, err := Open(Options{
		Location: location, DataDir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Now: func() time.Time { return time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, &log
}

func knows(s *Source) (builtIn, added bool) {
	_, builtIn = s.Data().Release("v1.34.4+k3s1")
	_, added = s.Data().Release("v1.40.0+k3s1")
	return builtIn, added
}

func TestSourceOfAnAddress(t *testing.T) {
	m := &mirror{text: newer, etag: `"1"`}
	web := httptest.NewServer(m)
	dir := t.TempDir()
	s, _ := open(t, web.URL+"/data.json", dir)
	if builtIn, added := knows(s); !builtIn || added || !s.Status().Read.IsZero() {
		t.Errorf("before the first answer: built in %v, added %v, %+v", builtIn, added, s.Status())
	}
	changes := 0
	s.OnChange(func(before, after *Data) {
		changes++
		if _, ok := before.Release("v1.40.0+k3s1"); ok && changes == 1 || after != s.Data() {
			t.Error("the change goes from what was not before to what is not now")
		}
	})
	for range 2 {
		if err := s.Refresh(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if builtIn, added := knows(s); !builtIn || !added || changes != 1 {
		t.Errorf("built in %v, added %v, %d changes", builtIn, added, changes)
	}
	if diff := cmp.Diff([]string{"", `"1"`}, m.asked); diff != "" {
		t.Error(diff)
	}

	m.text, m.etag = `{"releases": {}}`, `"2"`
	err := s.Refresh(t.Context(), nil)
	if _, added := knows(s); err == nil || !added || s.Status().Fault != errors.Unwrap(err).Error() || s.Status().Date != "2027-01-01" {
		t.Errorf("after a broken document: added %v, error %v, %+v", added, err, s.Status())
	}
	if s.Refresh(t.Context(), nil) == nil {
		t.Error("a broken document is taken the second time")
	}
	if m.asked[len(m.asked)-1] != `"1"` {
		t.Errorf("the tag of a document that was refused is taken: %q", m.asked)
	}

	m.text, m.etag = newer, `"1"`
	if err := s.Refresh(t.Context(), nil); err != nil || s.Status().Fault != "" {
		t.Errorf("after it is good again: %v, %+v", err, s.Status())
	}

	restarted, _ := open(t, web.URL+"/data.json", dir)
	if err := restarted.Refresh(t.Context(), nil); err != nil || m.asked[len(m.asked)-1] != `"1"` {
		t.Errorf("after a restart everything is fetched again: %v, %q", err, m.asked)
	}

	web.Close()
	later, _ := open(t, web.URL+"/data.json", dir)
	if _, added := knows(later); !added || later.Status().Read.IsZero() {
		t.Errorf("the copy is not used: %+v", later.Status())
	}
	if err := later.Refresh(t.Context(), nil); err == nil {
		t.Error("a closed server answers")
	}
	if _, added := knows(later); !added {
		t.Error("the copy is forgotten when the address cannot be reached")
	}
	other, _ := open(t, web.URL+"/other.json", dir)
	if _, added := knows(other); added {
		t.Error("the copy of another address is used")
	}
}

func TestSourceRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"a page for people", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "line 1: invalid character"},
		{"not found", http.NotFound, "the server answers 404 Not Found"},
		{"nothing new, unasked", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, "the server answers 304"},
		{"too much", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte(" "), maxDocument+1)) }, "more than 32 MiB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			web := httptest.NewServer(tc.answer)
			defer web.Close()
			dir := t.TempDir()
			s, log := open(t, strings.Replace(web.URL, "://", "://user:hunter2@", 1)+"/d?key=hunter3", dir)
			err := s.Refresh(t.Context(), nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want %s", err, tc.want)
			}
			if seen := log.String() + err.Error() + s.Status().Fault + s.Status().Location; strings.Contains(seen, "hunter") || !strings.Contains(s.Status().Location, web.URL[7:]) {
				t.Errorf("shown: %s", seen)
			}
			if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
				t.Errorf("it is kept: %v, %v", files, err)
			}
		})
	}
}

func TestABrokenCopyIsNotUsed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, copyFile), []byte(`{"location":"https://m.example/d","document":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, log := open(t, "https://m.example/d", dir)
	if builtIn, _ := knows(s); !builtIn || !strings.Contains(log.String(), "cannot be used") {
		t.Errorf("built in %v, log %s", builtIn, log)
	}
}

func TestSourceOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data.json")
	at := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	write := func(text string) {
		t.Helper()
		at = at.Add(time.Second)
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chtimes(file, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	write("{")
	if _, err := Open(Options{Location: file, Now: time.Now}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a broken file at the start: %v", err)
	}
	write(newer)
	s, _ := open(t, file, "")
	if _, added := knows(s); !added {
		t.Error("the file is not read")
	}
	write("{")
	for range 2 { // the second time it has not changed
		if err := s.Refresh(t.Context(), nil); err == nil || s.Status().Fault == "" {
			t.Errorf("a broken file: %v, %+v", err, s.Status())
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := s.Refresh(t.Context(), nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, added := knows(s); !added {
		t.Error("a file that is gone takes its data along")
	}
	write(newer)
	again := at
	if err := s.Refresh(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if err := errors.Join(os.Remove(file), func() error { _ = s.Refresh(t.Context(), nil); return nil }()); err != nil {
		t.Fatal(err)
	}
	at = again.Add(-time.Second)
	write(newer) // as it was, as a volume that is mounted again
	if err := s.Refresh(t.Context(), nil); err != nil || s.Status().Fault != "" {
		t.Errorf("a file that is back: %v, %+v", err, s.Status())
	}
	at = again
	write(strings.Replace(newer, "v1.40.0", "v1.41.0", 1))
	if err := s.Refresh(t.Context(), nil); err != nil || s.Status().Fault != "" {
		t.Errorf("%v, %+v", err, s.Status())
	}
	if _, ok := s.Data().Release("v1.41.0+k3s1"); !ok {
		t.Error("the changed file is not read")
	}
	if _, added := knows(s); added {
		t.Error("what the file no longer has is still there")
	}
}

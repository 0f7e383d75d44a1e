package selfupdate

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/skips"
)

func TestBeginRefuses(t *testing.T) {
	s := newScene(t)
	dir := t.TempDir()
	good, goodSum := program(t, dir, "is well")
	write := func(name string, content []byte) (path, sum string) {
		path = filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		sum, err := checksum(path)
		if err != nil {
			t.Fatal(err)
		}
		return path, sum
	}
	page, pageSum := write("page", []byte("<html>not found</html> and more"))
	elf, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	elf[18] ^= 0xff
	other, otherSum := write("other", elf)
	elf[18] ^= 0xff
	elf[24] ^= 0xff // where it starts
	broken, brokenSum := write("broken", elf)
	if err := os.Mkdir(dir+"/picky", 0o755); err != nil {
		t.Fatal(err)
	}
	picky, pickySum := program(t, dir+"/picky", "refuses the configuration")
	for _, tc := range []struct {
		name    string
		request Request
		want    string
	}{
		{"no checksum", Request{From: good}, "not a SHA-256"},
		{"half a checksum", Request{From: good, Checksum: goodSum[:32]}, "not a SHA-256"},
		{"another checksum", Request{From: good, Checksum: strings.Repeat("0", 64)}, goodSum},
		{"no file", Request{From: dir + "/none", Checksum: goodSum}, "no such file"},
		{"a web page", Request{From: page, Checksum: pageSum}, "web page"},
		{"another architecture", Request{From: other, Checksum: otherSum}, "architecture"},
		{"does not start", Request{From: broken, Checksum: brokenSum}, "fails at version"},
		{"refuses the configuration", Request{From: picky, Checksum: pickySum}, "no such key"},
		{"too little time", Request{From: good, Checksum: goodSum, Within: time.Second}, "between"},
		{"credentials", Request{From: "https://u:hunter2@h/x", Checksum: goodSum}, "credentials"},
		{"the same", Request{From: s.program, Checksum: strings.ToUpper(s.oldSum)}, ErrSame.Error()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := s.updater().Begin(t.Context(), tc.request)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("err = %v, want %q in it", err, tc.want)
			}
			s.wantUntouched(t)
		})
	}
	t.Run("systemd does not want to", func(t *testing.T) {
		s.manager.fails = "restart --no-block " + WatchService
		defer func() { s.manager.fails = "" }()
		_, err := s.updater().Begin(t.Context(), Request{From: good, Checksum: goodSum})
		if err == nil || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("err = %v", err)
		}
		s.wantUntouched(t)
	})
	t.Run("another one is under way", func(t *testing.T) {
		s.begin("is well")
		_, err := s.updater().Begin(t.Context(), Request{From: good, Checksum: goodSum})
		if err == nil || !strings.Contains(err.Error(), "under way") || s.installed() != s.oldSum {
			t.Errorf("err = %v", err)
		}
	})
}

func (s *scene) wantUntouched(t *testing.T) {
	t.Helper()
	if s.installed() != s.oldSum {
		t.Error("the program was replaced")
	}
	for _, gone := range []string{intentFile(s.update), s.program + ".new", filepath.Join(s.units, WatchService)} {
		if _, err := os.Lstat(gone); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left behind: %v", gone, err)
		}
	}
}

// A redirect to plain HTTP is not followed.
func TestBeginStaysEncrypted(t *testing.T) {
	s := newScene(t)
	path, sum := program(t, t.TempDir(), "is well")
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) }))
	defer plain.Close()
	server := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := s.updater().Begin(t.Context(), Request{From: server.URL, Checksum: sum, CAFile: ca})
	if err == nil || !strings.Contains(err.Error(), "without encryption") {
		t.Errorf("err = %v", err)
	}
	s.wantUntouched(t)
}

func TestBeginFromAServer(t *testing.T) {
	s := newScene(t)
	path, sum := program(t, t.TempDir(), "is well")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/agent" {
			http.NotFound(w, r)
			return
		}
		http.ServeFile(w, r, path)
	}))
	defer server.Close()
	if _, err := s.updater().Begin(t.Context(), Request{From: server.URL + "/other", Checksum: sum}); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("err = %v", err)
	}
	s.wantUntouched(t)
	id, err := s.updater().Begin(t.Context(), Request{From: server.URL + "/agent", Checksum: sum})
	if err != nil {
		t.Fatal(err)
	}
	var in Intent
	if ok, err := readRecord(intentFile(s.update), &in); !ok || err != nil || in.ID != id || !in.Connect || in.NewVersion != "v-is-well" {
		t.Errorf("intent %+v, %v, %v", in, ok, err)
	}
	if err := s.watcher(nil).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	last, err := s.updater().Await(t.Context(), id)
	if err != nil || !last.Updated {
		t.Errorf("%+v, %v", last, err)
	}
}

// TestBeginFromAHostileServer: nothing of what another server gives is kept, and no way leads from TLS to plain HTTP.
// TestAServerWithTooMuchToDoIsAskedWhenItSays: a fleet that updates in one moment does not press it, and is updated after all.
func TestAServerWithTooMuchToDoIsAskedWhenItSays(t *testing.T) {
	type answer struct {
		status  int
		request string
	}
	for _, tc := range []struct {
		name    string
		answers []answer // then the program
		within  time.Duration
		waits   []time.Duration // at least, and up to a quarter more
		err     string
	}{
		{"twice", []answer{{503, "40"}, {429, "100"}}, time.Hour, []time.Duration{40 * time.Second, 100 * time.Second}, ""},
		{"longer than there is time", []answer{{503, "300"}}, time.Minute, nil, "503 Service Unavailable and asks to be left alone; try again in "},
		{"it does not say when", []answer{{429, ""}}, time.Hour, nil, "429 Too Many Requests"},
		{"it is broken", []answer{{500, "40"}}, time.Hour, nil, "500 Internal Server Error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t)
			path, sum := program(t, t.TempDir(), "is well")
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked++; asked > len(tc.answers) {
					http.ServeFile(w, r, path)
					return
				}
				if a := tc.answers[asked-1]; a.request != "" {
					w.Header().Set("Retry-After", a.request)
				}
				w.WriteHeader(tc.answers[asked-1].status)
			}))
			defer server.Close()
			u := s.updater()
			var waits []time.Duration
			u.wait = func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }
			ctx, cancel := context.WithTimeout(t.Context(), tc.within)
			defer cancel()
			_, err := u.Begin(ctx, Request{From: server.URL, Checksum: sum})
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("err = %v, want %q in it", err, tc.err)
			}
			if len(waits) != len(tc.waits) || asked != len(tc.waits)+1 {
				t.Fatalf("asked %d times, waited for %s", asked, waits)
			}
			for i, want := range tc.waits {
				if waits[i] < want-time.Second || waits[i] > want+want/4 {
					t.Errorf("waited for %s, the server asked for %s", waits[i], want)
				}
			}
		})
	}
}

// TestAServerThatStartsAgainIsAskedAgain: one that was killed when the update began has it go on; one that is gone is given up after half a
// minute.
func TestAServerThatStartsAgainIsAskedAgain(t *testing.T) {
	for name, after := range map[string]int{"it is back": 3, "it is gone": 1000} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			path, sum := program(t, t.TempDir(), "is well")
			taken, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			address := taken.Addr().String()
			taken.Close()
			u := s.updater()
			began := time.Now()
			waited, waits := time.Duration(0), 0
			u.Now = func() time.Time { return began.Add(waited) }
			u.wait = func(_ context.Context, d time.Duration) error {
				waited += d
				if waits++; waits != after {
					return nil
				}
				back, err := net.Listen("tcp", address)
				if err != nil {
					return err
				}
				server := &httptest.Server{Listener: back, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) })}}
				server.Start()
				t.Cleanup(server.Close)
				return nil
			}
			_, err = u.Begin(t.Context(), Request{From: "http://" + address, Checksum: sum})
			if back := after < 1000; back != (err == nil) || back && waits != after {
				t.Errorf("after %d waits of %s: %v", waits, waited, err)
			}
			if waited > serverStart+5*time.Second {
				t.Errorf("it waited for %s", waited)
			}
		})
	}
}

func TestBeginFromAHostileServer(t *testing.T) {
	s := newScene(t)
	path, sum := program(t, t.TempDir(), "is well")
	other, _ := program(t, t.TempDir(), "is another")
	open := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) }))
	defer open.Close()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/plain":
			http.Redirect(w, r, open.URL, http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/other":
			http.ServeFile(w, r, other)
		case "/cut":
			w.Header().Set("Content-Length", "1000000")
			_, _ = w.Write([]byte("\x7fELF"))
		default:
			http.ServeFile(w, r, path)
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	// A file of a local user's choice, should the staged program be a link.
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, from, ca, want string }{
		{"an authority that nobody named", server.URL + "/", "", "unknown authority"},
		{"another name", strings.Replace(server.URL, "127.0.0.1", "localhost", 1), ca, "not localhost"},
		{"a redirect without encryption", server.URL + "/plain", ca, "without encryption"},
		{"redirects without end", server.URL + "/round", ca, "redirects ten times"},
		{"another program", server.URL + "/other", ca, "nothing was changed"},
		{"cut off", server.URL + "/cut", ca, "unexpected EOF"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := os.Symlink(outside, s.program+".new"); err != nil {
				t.Fatal(err)
			}
			_, err := s.updater().Begin(t.Context(), Request{From: tc.from, Checksum: sum, CAFile: tc.ca})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("err = %v, want %q in it", err, tc.want)
			}
			s.wantUntouched(t)
			if b, err := os.ReadFile(outside); err != nil || string(b) != "theirs" {
				t.Errorf("the file behind the link has %q, %v", b, err)
			}
		})
	}
}

func TestSystemdAcceptsTheJudgesUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		skips.Skip(t, "systemd-analyze is not installed")
	}
	verify := func(text string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), WatchService)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, _ := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput() // others' units may be at fault
		return string(out)
	}
	text := watchText("/bin/true", "/var/lib/rancher/agent/update")
	if out := verify(text); strings.Contains(out, WatchService) {
		t.Errorf("systemd-analyze verify says:\n%s", out)
	}
	if out := verify(text + "NoSuchKey=1\n"); !strings.Contains(out, "NoSuchKey") {
		t.Errorf("systemd-analyze verify does not see an unknown key: %q", out)
	}
}

// TestTheIntentStandsBeforeItsJudgeStarts: a judge that starts and finds none goes away, and
// no agent would decide.
func TestTheIntentStandsBeforeItsJudgeStarts(t *testing.T) {
	s := newScene(t)
	path, sum := program(t, t.TempDir(), "is well")
	u := s.updater()
	systemctl, started := u.systemctl, 0
	u.systemctl = func(ctx context.Context, args ...string) (string, error) {
		if args[0] == "restart" && args[len(args)-1] == WatchService {
			started++
			var in Intent
			if ok, err := readRecord(intentFile(s.update), &in); !ok || err != nil || in.New != sum {
				t.Errorf("the judge starts and finds %+v, %v, %v", in, ok, err)
			}
			if previous, err := checksum(in.Previous); err != nil || previous != s.oldSum {
				t.Errorf("the previous program is %s, %v", previous, err)
			}
		}
		return systemctl(ctx, args...)
	}
	if _, err := u.Begin(t.Context(), Request{From: path, Checksum: sum}); err != nil || started != 1 {
		t.Errorf("the judge was started %d times, %v", started, err)
	}
}

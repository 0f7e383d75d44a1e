package hostjob_test

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/drover-project/drover/test/skips"
)

// supervisor is a server that takes tokens as k3s does: what etcd holds is written with the new one, and it opens to the one that
// it started with.
type supervisor struct {
	*host
	mu    sync.Mutex // of what follows
	opens string
	// refusing is a status with which it answers so often as times says.
	refusing, times int
	// tokens are those that it was asked for.
	tokens []string
}

// asked are the tokens that it was asked for.
func (s *supervisor) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens
}

// is changes how it answers.
func (s *supervisor) is(opens string, refusing, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opens, s.refusing, s.times = opens, refusing, times
}

const freshHash = "00000000000f"

// newSupervisor is a host on which a server runs.
func newSupervisor(t *testing.T) *supervisor {
	t.Helper()
	curl, err := exec.LookPath("curl")
	if err != nil {
		skips.Skip(t, "there is no curl")
	}
	s := &supervisor{host: newHost(t), opens: "old-word"}
	server := httptest.NewUnstartedServer(s)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	s.Distribution.JoinPort = server.Listener.Addr().(*net.TCPAddr).Port
	s.write("data/server/tls/server-ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	s.write("data/server/db/etcd/member/snap/db", "/bootstrap/00000000000a")
	s.write("data/server/cred/passwd", "old-word")
	s.program("curl", "exec "+curl+` "$@"`)
	s.program("sleep", "")
	s.program("systemctl", "")
	return s
}

func (s *supervisor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var asked struct{ NewToken string }
	user, password, _ := r.BasicAuth()
	switch err := json.NewDecoder(r.Body).Decode(&asked); {
	case err != nil || r.Method != http.MethodPut || r.URL.Path != "/v1-k3s/token":
		s.Errorf("asked by %s %s: %v", r.Method, r.URL, err)
	case user != "server" || password != s.opens:
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	s.tokens = append(s.tokens, asked.NewToken)
	if s.times--; s.times >= 0 {
		http.Error(w, "bootstrap data already found and encrypted with different token", s.refusing)
		return
	}
	if asked.NewToken == "fresh-word" {
		s.write("data/server/db/etcd/member/snap/db", "/bootstrap/00000000000a /bootstrap/"+freshHash)
	}
}

// takes runs the job, and fails unless it says so and no token is in an argument or in what it says.
func (s *supervisor) takes(id, want string, opens ...string) error {
	s.Helper()
	in := s.Token(id, "fresh-word", freshHash, opens)
	env := []string{}
	for _, one := range in.Env {
		if strings.HasPrefix(one, "DROVER_SECRET_") {
			env = append(env, one)
		}
	}
	in.Command, in.Args = "env", append(append(env, in.Command), in.Args...)
	out, err := s.run(in, 0)
	if !strings.Contains(out, want) {
		s.Errorf("it says %q, want %q", out, want)
	}
	left := out + strings.Join(s.calls(), "\n")
	kept, _ := filepath.Glob(filepath.Join(s.DataDir, "drover/errands/*"))
	for _, file := range kept {
		text, _ := os.ReadFile(file)
		left += string(text)
	}
	if strings.Contains(left, "-word") {
		s.Errorf("a token is in an argument, in what is said, or in a file that stays: %s", left)
	}
	return err
}

// TestToken: the server is asked once, with the token that it knows; afterwards it is not asked again.
func TestToken(t *testing.T) {
	s := newSupervisor(t)
	if err := s.takes("op-1-token-1", "etcd has the new token", "newer-word", "old-word"); err != nil || !slices.Equal(s.asked(), []string{"fresh-word"}) {
		t.Errorf("%v, asked for %q", err, s.asked())
	}
	if err := s.takes("op-1-token-2", "etcd has the new token already", "old-word"); err != nil || len(s.asked()) != 1 {
		t.Errorf("%v, asked for %q", err, s.asked())
	}
	if err := s.takes("op-1-prove-1", "does not open with its new token: it knows none of the tokens", "fresh-word"); err == nil {
		t.Error("a server that knows the old token only opens with the new one")
	}
	s.is("fresh-word", 0, 0)
	if err := s.takes("op-1-prove-2", "the new token opens the cluster", "fresh-word"); err != nil || !slices.Equal(s.asked(), []string{"fresh-word", "fresh-word"}) {
		t.Errorf("%v, asked for %q", err, s.asked())
	}
}

// TestATokenThatIsHalfTaken is given back first, and taken then.
func TestATokenThatIsHalfTaken(t *testing.T) {
	s := newSupervisor(t)
	s.is("old-word", http.StatusInternalServerError, 1)
	if err := s.takes("op-1-token-1", "etcd has the new token", "old-word"); err != nil || !slices.Equal(s.asked(), []string{"fresh-word", "old-word", "fresh-word"}) {
		t.Errorf("%v, asked for %q", err, s.asked())
	}
}

// TestATokenThatIsNotTaken: the reason is said.
func TestATokenThatIsNotTaken(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*supervisor)
		want    string
	}{
		"an old version":      {func(s *supervisor) { s.is("old-word", http.StatusNotFound, 99) }, "Kubernetes 1.28 and later"},
		"no token is known":   {func(s *supervisor) { s.is("other-word", 0, 0) }, "it knows none of the tokens"},
		"it refuses":          {func(s *supervisor) { s.is("old-word", http.StatusInternalServerError, 99) }, "it answers 500: bootstrap data already found"},
		"nothing listens":     {func(s *supervisor) { s.Distribution.JoinPort = 1 }, "it does not answer"},
		"another certificate": {func(s *supervisor) { s.write("data/server/tls/server-ca.crt", "x") }, "it does not answer"},
		"etcd has nothing":    {func(s *supervisor) { s.program("grep", "exit 1") }, "etcd here does not have it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSupervisor(t)
			c.prepare(s)
			if err := s.takes("op-1-token-1", c.want, "old-word"); err == nil {
				t.Error("it succeeds")
			}
		})
	}
}

// TestATokenAfterACrash: a host that went down in the middle is asked only if etcd has not got the token, and the file that would
// keep its server from starting goes.
func TestATokenAfterACrash(t *testing.T) {
	for name, c := range map[string]struct {
		down, taken bool
		asked       int
	}{
		"before etcd had it":                  {false, false, 1},
		"before etcd had it, the unit fails":  {true, false, 1},
		"after etcd had it, the unit is down": {true, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSupervisor(t)
			s.write("data/drover/errands/op-1-token-1.begun", "")
			if c.taken {
				s.write("data/server/db/etcd/member/snap/db", "/bootstrap/"+freshHash)
			}
			if c.down {
				s.program("systemctl", `[ "$1" != is-active ]`)
			}
			if err := s.takes("op-1-token-1", "etcd has the new token", "old-word"); err != nil || len(s.asked()) != c.asked {
				t.Errorf("%v, asked for %q", err, s.asked())
			}
			if _, err := os.Stat(filepath.Join(s.DataDir, "server/cred/passwd")); os.IsNotExist(err) != c.down {
				t.Errorf("the file of passwords: %v", err)
			}
			if started := slices.Contains(s.calls(), "systemctl start k3s"); started != (c.down && !c.taken) {
				t.Errorf("the calls are %q", s.calls())
			}
		})
	}
}

// TestAServerThatEndedForItsFile of passwords gets it from etcd, and is asked again then; one that is still starting is left alone.
func TestAServerThatEndedForItsFile(t *testing.T) {
	for state, gone := range map[string]bool{"auto-restart": true, "failed": true, "dead": true, "running": false, "start": false, "": false} {
		t.Run(state, func(t *testing.T) {
			s := newSupervisor(t)
			s.write("data/server/db/etcd/member/snap/db", "/bootstrap/"+freshHash)
			s.is("fresh-word", http.StatusServiceUnavailable, 1)
			s.program("systemctl", `case "$*" in "show --property=SubState --value k3s") echo "`+state+`" ;; esac`)
			if err := s.takes("op-1-seal-1", "the new token opens the cluster", "fresh-word"); err != nil || len(s.asked()) != 2 {
				t.Errorf("%v, asked for %q", err, s.asked())
			}
			if _, err := os.Stat(filepath.Join(s.DataDir, "server/cred/passwd")); os.IsNotExist(err) != gone {
				t.Errorf("the file of passwords: %v", err)
			}
			if got := slices.Contains(s.calls(), "systemctl restart --no-block k3s"); got != gone {
				t.Errorf("the calls are %q", s.calls())
			}
		})
	}
}

// TestCheckFindsTheToken that a snapshot needs: the newest of which it has a trace.
func TestCheckFindsTheToken(t *testing.T) {
	for want, content := range map[string]string{
		"00000000000a": "/bootstrap/00000000000a",
		"00000000000b": "/bootstrap/00000000000a /bootstrap/00000000000b",
	} {
		h := newHost(t)
		h.write("data/server/db/snapshots/one", database(content))
		out, err := h.run(h.Check("op-1-check-1", "one", []string{"00000000000c", "00000000000b", "00000000000a"}), 0)
		if err != nil || !strings.Contains(out, `"tokenHash":"`+want+`"`) {
			t.Errorf("of %q: %v: %s", content, err, out)
		}
	}
}

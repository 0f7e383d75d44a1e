package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
)

func TestPulse(t *testing.T) {
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	for _, tc := range []struct {
		name      string
		bookmarks []int // seconds
		want      time.Duration
	}{
		{"no bookmark: the server ends the watch in time", nil, 300*time.Second + 90*time.Second},
		{"one bookmark says nothing yet", []int{0}, 390 * time.Second},
		{"two at once say nothing", []int{0, 0}, 390 * time.Second},
		{"heartbeats every 10 s", []int{0, 10, 20}, 120 * time.Second},
		{"the longest distance counts", []int{0, 60, 62}, 270 * time.Second},
		{"never longer than without", []int{0, 290}, 390 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := pulse{open: 300 * time.Second}
			for _, s := range tc.bookmarks {
				p.bookmark(at(s))
			}
			if got := p.limit(); got != tc.want {
				t.Errorf("limit %v, want %v", got, tc.want)
			}
		})
	}
}

func TestSilentStreamEnds(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := newClient(s.access(t), namespace, secretName, "test", time.Now)
	defer c.close()
	w, err := c.watch(t.Context(), "", true, 300)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if e, err := w.next(); err != nil || !e.synced {
		t.Fatalf("%+v, %v", e, err)
	}
	w.timer.Reset(10 * time.Millisecond) // as if the time were over
	if _, err := w.next(); !errors.Is(err, errSilent) {
		t.Errorf("err = %v", err)
	}
}

func TestSecretGoesBackAsItCame(t *testing.T) {
	const in = `{"apiVersion":"v1","data":{"a":"AQI=","n":null},"immutable":false,"kind":"Secret","later":{"x":[1,2.50]},` +
		`"metadata":{"name":"n","namespace":"ns","uid":"u","resourceVersion":"9","annotations":{"<":">"},"managedFields":[{}]},"type":"T"}`
	s, err := parseSecret([]byte(in), "ns", "n")
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.with(map[string][]byte{"a": {1, 2}, "n": s.Data["n"], "new": []byte("v")}).encode()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(in, `{"a":"AQI=","n":null}`, `{"a":"AQI=","n":"","new":"dg=="}`, 1)
	var x, y any
	if json.Unmarshal(b, &x) != nil || json.Unmarshal([]byte(want), &y) != nil {
		t.Fatalf("not JSON: %s", b)
	}
	if diff := cmp.Diff(y, x); diff != "" {
		t.Errorf("Secret (-want +got):\n%s", diff)
	}
	if !strings.Contains(string(b), "2.50") {
		t.Error("a number was written anew")
	}
}

func TestAnswersOfTheServerAreBoundedAndPlain(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := newClient(s.access(t), namespace, secretName, "test", time.Now)
	defer c.close()
	s.setTrap(func(w http.ResponseWriter, r *http.Request) bool {
		w.WriteHeader(500)
		io.WriteString(w, "first\n\x1b[31msecond\u009b31m\u202e"+strings.Repeat("x", 100_000))
		return true
	})
	_, err := c.get(context.Background())
	var answer *StatusError
	if !errors.As(err, &answer) {
		t.Fatalf("err = %v", err)
	}
	if len(answer.Message) > 400 || !plans.SafeText(answer.Message) || !strings.HasPrefix(answer.Message, "first") {
		t.Errorf("message %q", answer.Message)
	}
	if strings.Contains(err.Error(), "tok-1") {
		t.Errorf("the token is in %v", err)
	}
}

func FuzzWatchStream(f *testing.F) {
	f.Add([]byte(`{"type":"ADDED","object":{"kind":"Secret","metadata":{"name":"n","resourceVersion":"1"},"data":{"plan":"e30="}}}`))
	f.Add([]byte(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}{"type":"ERROR","object":{"code":410}}`))
	f.Add([]byte(`{"type":"DELETED","object":{"metadata":{"name":"n"}}} {"type":"MODIFIED","object":null}`))
	f.Add([]byte(`[[[[`))
	f.Fuzz(func(t *testing.T, b []byte) {
		timer := stoppedTimer()
		ctx, cancel := context.WithCancelCause(t.Context())
		s := &stream{c: &client{namespace: "ns", name: "n"}, ctx: ctx, cancel: cancel, timer: timer, body: io.NopCloser(nil)}
		s.in = &meter{r: strings.NewReader(string(b)), came: func() {}}
		s.dec = json.NewDecoder(s.in)
		defer s.timer.Stop()
		for range len(b) + 1 {
			e, err := s.next()
			if err != nil {
				return
			}
			if e.secret != nil {
				Decide(e.secret, Memory{}, noon)
				if _, err := e.secret.encode(); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Error("the stream has no end")
	})
}

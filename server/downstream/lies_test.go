package downstream

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel/answers"
)

// endless writes text until the other side reads no further.
func endless(w io.Writer, text string) {
	for block := []byte(strings.Repeat(text, 1+(32<<10)/len(text))); ; {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

// at lies at one path, and tells the truth at all others.
func at(path string, watch bool, answer func(w http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != path || (r.URL.Query().Get("watch") != "") != watch {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		answer(w)
		return true
	}
}

const nodesPath = "/api/v1/nodes"

// manyNodes are pages of nodes without end.
func manyNodes() func(http.ResponseWriter) {
	var page atomic.Int64
	return func(w http.ResponseWriter) {
		n := page.Add(1)
		var items []string
		for i := range 250 {
			items = append(items, fmt.Sprintf(`{"metadata": {"name": "n-%d-%d"}}`, n, i))
		}
		fmt.Fprintf(w, `{"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1", "continue": "p%d"}, "items": [%s]}`, n, strings.Join(items, ","))
	}
}

// TestWhatAClusterAnswersIsBounded: the connection ends, the cause says why, and nothing is asked again before it is time.
func TestWhatAClusterAnswersIsBounded(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		lies func(http.ResponseWriter, *http.Request) bool
		says string
		// sends is how many bytes may have been sent; what is on the way is in buffers.
		sends int64
	}{
		{"a version without end", at("/version", false, func(w http.ResponseWriter) { endless(w, " ") }), "answered its version with more than 64 KiB", 16 << 20},
		{"a list without end", at(nodesPath, false, func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"kind": "NodeList", "apiVersion": "v1", "items": [`)
			endless(w, `{"metadata": {"name": "`+strings.Repeat("a", 1000)+`"}},`)
		}), "answered a list of nodes with more than 16 MiB", 40 << 20},
		{"a list of nothing without end", at(nodesPath, false, func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"kind": "NodeList", "apiVersion": "v1", "items": [`)
			endless(w, `{},`)
		}), "answered a list of nodes with more values in it than 16 MiB may have", 16 << 20},
		{"pages without end", at(nodesPath, false, manyNodes()), "answered nodes with more than 16 MiB", 40 << 20},
		{"an event without end", at(nodesPath, true, func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"type": "ADDED", "object": {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "`)
			endless(w, "a")
		}), "answered an event of nodes with more than 4 MiB", 24 << 20},
		{"events without end", at(nodesPath, true, func(w http.ResponseWriter) {
			for i := 0; ; i++ {
				if _, err := fmt.Fprintf(w, `{"type": "ADDED", "object": {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n%d", "labels": {"a": %q}}}}`+"\n", i, strings.Repeat("a", 50_000)); err != nil {
					return
				}
			}
		}), "answered nodes with more than 16 MiB", 40 << 20},
		{"an object without end", at("/api/v1/namespaces/kube-system", false, func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "`)
			endless(w, "a")
		}), "answered an object of namespaces with more than 4 MiB", 24 << 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.open = true
			h.set("True", map[string]any{machineLabel: "m"})
			var sent atomic.Int64
			h.lies = func(w http.ResponseWriter, r *http.Request) bool { return tc.lies(counted{w, &sent}, r) }
			m, changed := start(t, h)
			says := "the Kubernetes API of cluster harbour over host fleet-default/custom-1 " + tc.says + "; it is asked again at 2"
			await(t, m, changed, func(a observed.API) bool {
				if w := m.watcher("fleet-default/harbour"); w != nil {
					w.announced() // the next look whether it still answers comes at once
				}
				return !a.Reachable && strings.Contains(a.Cause, says)
			})
			if n := sent.Load(); n > tc.sends {
				t.Errorf("%d bytes were sent", n)
			}
			if _, err := m.Client("fleet-default/harbour"); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("who asks for the cluster is told: %v", err)
			}
			// A tunnel that comes again and again has it looked at, and not asked.
			_, before := h.counts()
			for range 3 {
				looks, _ := h.counts()
				m.tunnelChanged("fleet-default/custom-1")
				await(t, m, changed, func(observed.API) bool { now, _ := h.counts(); return now > looks })
			}
			if _, n := h.counts(); n != before {
				t.Errorf("it was dialled %d times more", n-before)
			}
			// Later it is asked again, and may tell the truth.
			h.mu.Lock()
			h.lies = nil
			h.mu.Unlock()
			h.ahead.Store(int64(BarredFor))
			m.tunnelChanged("fleet-default/custom-1")
			await(t, m, changed, func(a observed.API) bool { return a.Reachable && a.Nodes["m"].Ready })
		})
	}
}

// counts are looks and dials.
func (h *host) counts() (looks, dials int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.looks, h.dials
}

type counted struct {
	http.ResponseWriter
	sent *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.sent.Add(int64(n))
	return n, err
}

func (c counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// TestAnotherHostIsAskedInstead of one whose answers are too large.
func TestAnotherHostIsAskedInstead(t *testing.T) {
	t.Parallel()
	first, second := newHost(t), newHost(t)
	for i, h := range []*host{first, second} {
		h.open = true
		h.set("True", map[string]any{machineLabel: fmt.Sprintf("seen-by-%d", i+1)})
	}
	var requests atomic.Int64
	lies := at("/version", false, func(w http.ResponseWriter) { endless(w, " ") })
	first.lies = func(w http.ResponseWriter, r *http.Request) bool { requests.Add(1); return lies(w, r) }
	m, changed := start(t, fleet{"fleet-default/custom-1": first, "fleet-default/custom-2": second}, controlPlane("custom-1"), controlPlane("custom-2"))
	await(t, m, changed, func(a observed.API) bool { return a.Nodes["seen-by-2"].Ready })
	if n := requests.Load(); n != 1 {
		t.Errorf("the first host was asked %d times", n)
	}
	// It is no other way now for what leads over the second one.
	if w := m.watcher("fleet-default/harbour"); w.others("fleet-default/custom-2") {
		t.Error("a host whose answers are too large counts as another way")
	}
}

// TestAClusterLeadsNowhereElse: a redirect is not followed, and nothing is sent in plain text.
func TestAClusterLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	var inside atomic.Int64
	secret := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		inside.Add(1)
		_, _ = io.WriteString(w, `{"gitVersion": "a secret of the inside"}`)
	})
	plain, encrypted := httptest.NewServer(secret), httptest.NewTLSServer(secret)
	t.Cleanup(plain.Close)
	t.Cleanup(encrypted.Close)
	for _, to := range []string{plain.URL, encrypted.URL, "/version"} {
		t.Run(to, func(t *testing.T) {
			h := newHost(t)
			h.open = true
			h.set("True", map[string]any{machineLabel: "m"})
			m, changed := start(t, h)
			await(t, m, changed, func(a observed.API) bool { return a.Reachable })
			h.mu.Lock()
			h.lies = func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, to, http.StatusFound)
				return true
			}
			h.mu.Unlock()
			h.drop()
			api := await(t, m, changed, func(a observed.API) bool { return strings.Contains(a.Cause, "redirect") })
			if want := "the Kubernetes API of cluster harbour over host fleet-default/custom-1 answered 302, a redirect, which is not followed"; !strings.Contains(api.Cause, want) {
				t.Errorf("the cause is %s", api.Cause)
			}
		})
	}
	t.Run("of a person's request", func(t *testing.T) {
		h := newHost(t)
		h.open = true
		h.set("True", map[string]any{machineLabel: "m"})
		h.lies = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/whoami" {
				return false
			}
			http.Redirect(w, r, plain.URL, http.StatusFound)
			return true
		}
		m, changed := start(t, h)
		await(t, m, changed, func(a observed.API) bool { return a.Reachable })
		send := func(url string) (*http.Response, error) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			return m.Way("fleet-default/harbour", AdminCredentials).RoundTrip(request)
		}
		answer, err := send("https://127.0.0.1:6443/whoami")
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusFound || answer.Header.Get("Location") != plain.URL {
			t.Errorf("the answer is %s, to %s", answer.Status, answer.Header.Get("Location"))
		}
		if _, err := send(plain.URL); err == nil || !strings.Contains(err.Error(), "over TLS alone") {
			t.Errorf("in plain text: %v", err)
		}
	})
	if n := inside.Load(); n != 0 {
		t.Errorf("%d requests went inside", n)
	}
}

// TestPeoplesAnswersAreStreams: what a person asks for may be as long as it is.
func TestPeoplesAnswersAreStreams(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.open = true
	h.set("True", map[string]any{machineLabel: "m"})
	h.lies = at("/whoami", false, func(w http.ResponseWriter) { endless(w, "a") })
	m, changed := start(t, h)
	await(t, m, changed, func(a observed.API) bool { return a.Reachable })
	for _, as := range []Credentials{AdminCredentials, NoCredentials} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:6443/whoami", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := m.Way("fleet-default/harbour", as).RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.CopyN(io.Discard, answer.Body, 64<<20); err != nil {
			t.Errorf("it ends after %d bytes: %v", n, err)
		}
		_ = answer.Body.Close()
	}
	if api := m.API("fleet-default/harbour"); !api.Reachable {
		t.Errorf("the cluster is out of reach: %s", api.Cause)
	}
}

// TestHeadersOfAClusterAreBounded for the server and for people alike.
func TestHeadersOfAClusterAreBounded(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.open = true
	h.set("True", map[string]any{machineLabel: "m"})
	h.lies = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/whoami" {
			return false
		}
		for i := range 100 {
			w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("a", 10_000))
		}
		return true
	}
	m, changed := start(t, h)
	await(t, m, changed, func(a observed.API) bool { return a.Reachable })
	if _, err := ask(t, m.Way("fleet-default/harbour", NoCredentials)); err == nil || errors.As(err, new(*UnsentError)) {
		t.Errorf("a header of a megabyte: %v", err)
	}
}

// TestAllClustersShareABudget: fifty answer at once with large lists. What is read of them at the same time is bounded, and each has
// its turn.
func TestAllClustersShareABudget(t *testing.T) {
	t.Parallel()
	const clusters, most, small = 16, 8 << 20, 256 << 10
	h := newHost(t)
	h.open = true
	h.set("True", map[string]any{})
	h.budget = answers.NewBudget(most, 100*time.Millisecond)
	page := fmt.Sprintf(`{"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "a", "annotations": {"large": %q}}}]}`, strings.Repeat("a", 3<<20))
	var highest atomic.Int64
	h.lies = at(nodesPath, false, func(w http.ResponseWriter) {
		for rest := page; rest != ""; {
			n, err := io.WriteString(w, rest[:min(len(rest), 16<<10)])
			if err != nil {
				return
			}
			rest = rest[n:]
			for now := h.budget.Taken(); ; {
				if was := highest.Load(); now <= was || highest.CompareAndSwap(was, now) {
					break
				}
			}
		}
	})
	m, _ := start(t, h)
	var ops []store.Op
	for i := range clusters - 1 {
		machine, name := controlPlane(fmt.Sprint("custom-", i+2)), fmt.Sprint("harbour-", i+2)
		machine.ClusterName = name
		ops = append(ops, m.State.Machines.Creating(machine.Key(), machine), m.State.Clusters.Creating("fleet-default/"+name, records.Cluster{
			Object: records.Object{Namespace: "fleet-default", Name: name}, Spec: clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1"}}))
	}
	if _, err := m.State.Store.Commit(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
	for _, d := range m.State.Clusters.List() {
		for key := records.ClusterKey(d.Key); !m.API(key).Reachable; {
			select {
			case <-t.Context().Done():
				t.Fatalf("cluster %s is not asked: %+v", key, m.API(key))
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	if n := highest.Load(); n < 1<<20 || n > most+clusters*small {
		t.Errorf("at most %d bytes were read at the same time, and %d are there", n, most)
	}
}

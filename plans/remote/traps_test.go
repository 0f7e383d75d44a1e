package remote

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

func isWatch(r *http.Request) bool   { return r.URL.Query().Get("watch") == "true" }
func isInitial(r *http.Request) bool { return r.URL.Query().Get("sendInitialEvents") == "true" }

// TestSyncAgainstServersOfManyKinds has each server deliver one plan that exists at the
// beginning and one that comes later.
func TestSyncAgainstServersOfManyKinds(t *testing.T) {
	t.Parallel()
	stream := func(w http.ResponseWriter, r *http.Request, body string) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, body)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	for _, tc := range []struct {
		name string
		trap func(w http.ResponseWriter, r *http.Request) bool
	}{
		{"streams the initial state", nil},
		{"answers 400 to the streaming list", func(w http.ResponseWriter, r *http.Request) bool {
			if isInitial(r) {
				fail(w, 400, "BadRequest")
			}
			return isInitial(r)
		}},
		{"answers 422 as an API server without the feature", func(w http.ResponseWriter, r *http.Request) bool {
			if isInitial(r) {
				fail(w, 422, "Invalid")
			}
			return isInitial(r)
		}},
		{"accepts sendInitialEvents and never sends the mark", func(w http.ResponseWriter, r *http.Request) bool {
			if isInitial(r) {
				stream(w, r, "")
			}
			return isInitial(r)
		}},
		{"sends an unmarked bookmark only", func(w http.ResponseWriter, r *http.Request) bool {
			if isInitial(r) {
				stream(w, r, `{"type":"BOOKMARK","object":{"kind":"Secret","metadata":{"resourceVersion":"41"}}}`)
			}
			return isInitial(r)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t)
			s.set(map[string]string{"plan": planA, "plan-state": "pending"})
			s.setTrap(tc.trap)
			e := &engine{}
			follow(t, s, e)
			s.wantState(t, "succeeded")
			s.set(map[string]string{"plan": planB, "plan-state": "pending"})
			waitUntil(t, "the second plan is applied", func() bool { return s.now()["applied-checksum"] == sum(planB) })
			wantCalls(t, e, "apply a u1/1 attempt 1", "apply b u1/2 attempt 1")
		})
	}
}

func TestFirstRequestAsksForTheVersion(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	src, _ := follow(t, s, &engine{})
	waitUntil(t, "it watches", func() bool { return len(s.asked()) >= 2 })
	if got := s.asked()[:2]; !slices.Equal(got, []string{"GET /pfx/version", "WATCH initial=true"}) {
		t.Errorf("first requests %q", got)
	}
	waitUntil(t, "the status says what is missing", func() bool {
		return strings.Contains(src.Status().String(), "no plan Secret")
	})
}

// TestTrouble meets the agent with each kind of trouble after it has synced, some times
// in a row, and wants the plan that is made pending meanwhile executed once.
func TestTrouble(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		do   func(w http.ResponseWriter, r *http.Request) (handled bool)
	}{
		{"500", func(w http.ResponseWriter, r *http.Request) bool { fail(w, 500, "InternalError"); return true }},
		{"503 with Retry-After", func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Retry-After", "0")
			fail(w, 503, "ServiceUnavailable")
			return true
		}},
		{"429", func(w http.ResponseWriter, r *http.Request) bool { fail(w, 429, "TooManyRequests"); return true }},
		{"401", func(w http.ResponseWriter, r *http.Request) bool { fail(w, 401, "Unauthorized"); return true }},
		{"HTML with 200", func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<!doctype html><title>Log in</title>")
			return true
		}},
		{"HTML that says it is JSON", func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, "<!doctype html><title>Log in</title>")
			return true
		}},
		{"half an object", func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"type":"MODIFIED","object":{"kind":"Secret","metadata":{"na`)
			return true
		}},
		{"connection cut", func(w http.ResponseWriter, r *http.Request) bool { panic(http.ErrAbortHandler) }},
		{"cut after the header", func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}},
		{"410 for the version", func(w http.ResponseWriter, r *http.Request) bool {
			if isWatch(r) && !isInitial(r) {
				fail(w, 410, "Expired")
				return true
			}
			return false
		}},
		{"410 as an event", func(w http.ResponseWriter, r *http.Request) bool {
			if isWatch(r) && !isInitial(r) {
				io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}`)
				return true
			}
			return false
		}},
		{"an error event", func(w http.ResponseWriter, r *http.Request) bool {
			if isWatch(r) {
				io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd"}}`)
			}
			return isWatch(r)
		}},
		{"an event beyond all bounds", func(w http.ResponseWriter, r *http.Request) bool {
			if isWatch(r) {
				io.WriteString(w, `{"type":"MODIFIED","object":{"data":{"plan":"`)
				io.WriteString(w, strings.Repeat("A", 5<<20))
			}
			return isWatch(r)
		}},
		{"an answer beyond all bounds", func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == "PUT" || strings.HasSuffix(r.URL.Path, secretName) {
				w.Write(make([]byte, 5<<20))
				return true
			}
			return false
		}},
		{"an answer to another question", func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"kind":"Pod","metadata":{"name":"x","resourceVersion":"1"}}`)
			return true
		}},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "https://127.0.0.1:1/elsewhere", http.StatusFound)
			return true
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t)
			s.set(map[string]string{"plan": planA, "plan-state": "pending"})
			e := &engine{}
			src, _ := follow(t, s, e)
			s.wantState(t, "succeeded")
			left := make(chan int, 1)
			left <- 4
			s.setTrap(func(w http.ResponseWriter, r *http.Request) bool {
				n := <-left
				if n > 0 {
					left <- n - 1
					return tc.do(w, r)
				}
				left <- 0
				return false
			})
			if strings.HasPrefix(tc.name, "410") {
				s.forget()
			}
			s.cutStreams()
			s.set(map[string]string{"plan": planB, "plan-state": "pending"})
			waitUntil(t, "the second plan is applied", func() bool { return s.now()["applied-checksum"] == sum(planB) })
			wantCalls(t, e, "apply a u1/1 attempt 1", "apply b u1/2 attempt 1")
			waitUntil(t, "it is connected again", func() bool { return src.Status().Connected })
		})
	}
}

func TestServerDownSaysWhy(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.setTrap(func(w http.ResponseWriter, r *http.Request) bool { fail(w, 503, "ServiceUnavailable"); return true })
	src, _ := follow(t, s, &engine{})
	waitUntil(t, "the status says it", func() bool {
		st := src.Status()
		return !st.Connected && st.Cause != nil && strings.Contains(st.String(), "503") && strings.Contains(st.String(), "not connected since")
	})
}

func TestOutcomeOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	e := &engine{onApply: func(context.Context, apply.Delivery) (apply.Result, error) {
		n := 0
		s.setTrap(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == "PUT" && n < 10 {
				n++
				fail(w, []int{500, 403, 429, 503, 401}[n%5], "Trouble")
				return true
			}
			return false
		})
		return apply.Result{Succeeded: true}, nil
	}}
	follow(t, s, e)
	s.wantState(t, "succeeded")
	wantCalls(t, e, "apply a u1/1 attempt 1")
}

func TestSecretDeletedAndMadeAnew(t *testing.T) {
	t.Parallel()
	for _, flow := range []string{"pending", ""} {
		t.Run("flow with state "+flow, func(t *testing.T) {
			s := newServer(t)
			s.set(map[string]string{"plan": planA, "plan-state": flow})
			e := &engine{}
			src, _ := follow(t, s, e)
			waitUntil(t, "it is applied", func() bool { return s.now()["applied-checksum"] == sum(planA) })
			s.remove("u2")
			waitUntil(t, "the status says it", func() bool { return strings.Contains(src.Status().String(), "no plan Secret") })
			s.set(map[string]string{"plan": planA, "plan-state": flow, "applied-checksum": "x"})
			waitUntil(t, "it is applied again", func() bool { return s.now()["applied-checksum"] == sum(planA) })
			if got := e.count("apply"); got != 2 {
				t.Errorf("applied %d times", got)
			}
		})
	}
}

func TestSecretDeletedDuringAnApply(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	e := &engine{onApply: func(context.Context, apply.Delivery) (apply.Result, error) {
		if s.now()["plan"] == planA {
			s.remove("u2")
			s.set(map[string]string{"plan": planB, "plan-state": "pending"})
		}
		return apply.Result{Succeeded: true}, nil
	}}
	follow(t, s, e)
	s.wantState(t, "succeeded")
	wantCalls(t, e, "apply a u1/1 attempt 1", "apply b u2/1 attempt 1")
}

func TestSecretOfOthersIsIgnored(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.setTrap(func(w http.ResponseWriter, r *http.Request) bool {
		if !isInitial(r) {
			return false
		}
		fmt.Fprintf(w, `{"type":"ADDED","object":{"kind":"Secret","metadata":{"name":"other","namespace":"fleet-default","uid":"u9","resourceVersion":"3"},"data":{"plan":"e30=","plan-state":"cGVuZGluZw=="}}}`)
		fmt.Fprintf(w, `{"type":"ADDED","object":{"kind":"ConfigMap","metadata":{"name":%q,"resourceVersion":"3"}}}`, secretName)
		fmt.Fprintf(w, `{"type":"LATER","object":{}}`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	})
	e := &engine{}
	s.set(map[string]string{"plan": planA, "plan-state": "pending"})
	follow(t, s, e)
	s.wantState(t, "succeeded") // by the list that follows
	wantCalls(t, e, "apply a u1/1 attempt 1")
}

// A server that drops empty values never holds what was written; it must not be written to for ever.
func TestServerThatDropsEmptyValuesIsNotWrittenToForEver(t *testing.T) {
	t.Parallel()
	const plan = `{"probes":{"web":{"httpGet":{"url":"http://127.0.0.1:1/"}}}}`
	s := newServer(t)
	s.set(map[string]string{"plan": plan, "plan-state": "pending", "probe-period-seconds": "1"})
	s.setTrap(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == "PUT" {
			s.put(w, r)
			s.set(map[string]string{"failed-output": "", "failed-checksum": "", "probe-statuses": ""})
			return true
		}
		return false
	})
	e := &engine{onProbes: func() map[string]plans.ProbeStatus { return map[string]plans.ProbeStatus{"web": {}} }}
	follow(t, s, e)
	waitUntil(t, "two rounds of probes", func() bool { return e.count("probes") >= 2 })
	if n := len(s.writes()); n > 4 {
		t.Errorf("%d writes", n)
	}
}

func TestOldVersionFromALaggingWatchExecutesNothing(t *testing.T) {
	t.Parallel()
	for _, flow := range []string{"pending", ""} {
		t.Run("flow with state "+flow, func(t *testing.T) {
			s := newServer(t)
			s.set(map[string]string{"plan": planA, "plan-state": flow})
			s.mu.Lock()
			old := fmt.Sprintf(`{"type":"MODIFIED","object":%s}`, s.object())
			s.mu.Unlock()
			e := &engine{}
			src, _ := follow(t, s, e)
			waitUntil(t, "it is applied", func() bool { return s.now()["applied-checksum"] == sum(planA) })
			s.clock.Store(int64(time.Hour)) // it comes much later
			replayed := make(chan struct{})
			s.setTrap(func(w http.ResponseWriter, r *http.Request) bool {
				if isWatch(r) {
					select {
					case <-replayed:
						return false
					default:
						close(replayed)
					}
					io.WriteString(w, old)
					return true
				}
				return false
			})
			s.cutStreams()
			<-replayed
			before := len(s.asked())
			waitUntil(t, "it watches again", func() bool {
				again := slices.ContainsFunc(s.asked()[before:], func(request string) bool { return strings.HasPrefix(request, "WATCH") })
				return again && src.Status().Connected
			})
			if got := e.count("apply"); got != 1 {
				t.Errorf("applied %d times", got)
			}
		})
	}
}

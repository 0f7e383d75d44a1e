package api_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestTokensOnTheWayIntoACluster: each that is not good has a sentence of its own, in the form that kubectl shows.
func TestTokensOnTheWayIntoACluster(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	apibed.Harbour(b)
	id, ann := b.Person("ann", "user", "admin")
	old := b.Token(id, records.Token{Name: "token-old", TTLMillis: 1000})
	other := b.Token(id, records.Token{Name: "token-other", ClusterID: "c-m-other234"})
	gone := b.Token(id, records.Token{Name: "token-gone", ClusterID: "c-m-h4rb0r55"})
	b.Pass(time.Minute)
	if err := b.Auth.RevokeToken(t.Context(), "token-gone"); err != nil {
		t.Fatal(err)
	}
	const path = "/k8s/clusters/c-m-h4rb0r55/api/v1/pods"
	check := func(name, token string, code int, reason, sentence string) {
		t.Helper()
		r := b.Request("GET", path, token, "")
		var s struct {
			Kind, Status, Reason, Message string
			Code                          int
		}
		if err := json.Unmarshal(r.Raw, &s); err != nil || r.Status != code || s.Code != code || s.Kind != "Status" || s.Status != "Failure" || s.Reason != reason || !strings.Contains(s.Message, sentence) {
			t.Errorf("%s: %d %s, want %d %s %q", name, r.Status, r.Raw, code, reason, sentence)
		}
	}
	check("none", "", 401, "Unauthorized", "must authenticate")
	check("unknown", "token-nosuch:x", 401, "Unauthorized", "must authenticate")
	check("a wrong key", "token-old:x", 401, "Unauthorized", "must authenticate")
	check("removed", gone, 401, "Unauthorized", "must authenticate")
	check("expired", old, 401, "Unauthorized", "has expired")
	check("of another cluster", other, 401, "Unauthorized", "limited to cluster c-m-other234")
	check("a good one, which gets as far as the cluster", ann, 503, "ServiceUnavailable", "cannot be reached")
	b.Want(http.StatusOK, "PUT", "/v3/users/"+id, `{"enabled":false}`)
	check("of a disabled user", ann, 401, "Unauthorized", "is disabled")
}

// dam takes so much of an answer, and then nothing until a deadline is over, which it is at once when there is one.
type dam struct {
	mu       sync.Mutex
	room     int
	deadline time.Time
	header   http.Header
	full     chan struct{}
	once     sync.Once
	forever  <-chan struct{}
}

func (d *dam) Header() http.Header { return d.header }
func (d *dam) WriteHeader(int)     {}
func (d *dam) Flush()              {}

func (d *dam) SetWriteDeadline(at time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deadline = at
	return nil
}

func (d *dam) Write(p []byte) (int, error) {
	d.mu.Lock()
	left, ends := d.room, d.deadline
	d.room -= len(p)
	d.mu.Unlock()
	if left >= len(p) {
		return len(p), nil
	}
	d.once.Do(func() { close(d.full) })
	if ends.IsZero() || time.Until(ends) > time.Minute {
		<-d.forever
	}
	return 0, os.ErrDeadlineExceeded
}

// TestWatchersThatNeverRead are left once what they take is full, whichever stream they watch.
func TestWatchersThatNeverRead(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	const kube = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	for _, path := range []string{
		"/apis/provisioning.cattle.io/v1/clusters" + kube, "/apis/cluster.x-k8s.io/v1beta1/machines" + kube,
		"/v1-drover/clusters?follow=true", "/v1-drover/machines?follow=true", "/v1-drover/operations?follow=true", "/v1-drover/events?follow=true",
		"/v1-drover/audit?follow=true",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			d := &dam{header: http.Header{}, full: make(chan struct{}), forever: t.Context().Done()}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://drover.example"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+b.Admin)
			ended := make(chan struct{})
			go func() { b.Handler.ServeHTTP(d, r); close(ended) }()
			for what, done := range map[string]chan struct{}{"is not sent anything": d.full, "goes on": ended} {
				select {
				case <-done:
				case <-time.After(30 * time.Second):
					t.Fatalf("it %s", what)
				}
			}
		})
	}
}

package registration_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestOneTokenBringsNoMoreMachinesThanItMay: a token in the wrong hands once made 34,835
// machines within 25 seconds. What it may bring is bounded by rate and by number, both by
// settings; hosts that register again are never asked.
func TestOneTokenBringsNoMoreMachinesThanItMay(t *testing.T) {
	f := setUp(t, nil)
	set := func(name, value string) {
		t.Helper()
		if err := f.settings.Set(t.Context(), name, value); err != nil {
			t.Fatal(err)
		}
	}
	set("registration-rate-per-minute", "10")
	set("registration-quota", "15")
	join := func(cluster string, i int) (int, string, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.server.URL+"/v3/connect/agent", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+f.token[cluster])
		r.Header.Set("X-Cattle-Id", fmt.Sprintf("host-%s-%d", cluster, i))
		r.Header.Set("X-Cattle-Role-Worker", "true")
		answer, err := f.server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, answer.Header.Get("Retry-After"), string(body)
	}
	for i := range 10 {
		if status, _, body := join("lab", i); status != http.StatusOK {
			t.Fatalf("machine %d: %d %s", i, status, body)
		}
	}
	status, after, body := join("lab", 10)
	if status != http.StatusTooManyRequests || after == "" || !strings.Contains(body, "more than 10 machines a minute from 127.0.0.1/32 (setting registration-rate-per-minute)") {
		t.Errorf("beyond the rate: %d, Retry-After %q, %s", status, after, body)
	}
	if status, _, body := join("lab", 3); status != http.StatusOK {
		t.Errorf("a host that registers again: %d %s", status, body)
	}
	if status, _, body := join("other", 0); status != http.StatusOK {
		t.Errorf("by another token: %d %s", status, body)
	}
	f.clock.Advance(time.Minute)
	for i := 10; i < 15; i++ {
		if status, _, body := join("lab", i); status != http.StatusOK {
			t.Fatalf("a minute later, machine %d: %d %s", i, status, body)
		}
	}
	status, _, body = join("lab", 15)
	if status != http.StatusForbidden || !strings.Contains(body, "has brought 15 machines from 127.0.0.1/32 already") || !strings.Contains(body, "registration-quota") {
		t.Errorf("beyond the quota: %d %s", status, body)
	}
	if got := len(f.state.Machines.List()); got != 16 {
		t.Errorf("%d machines in the store, want 16", got)
	}
	set("registration-quota", "0")
	set("registration-rate-per-minute", "0")
	for i := 15; i < 40; i++ {
		if status, _, body := join("lab", i); status != http.StatusOK {
			t.Fatalf("without limits, machine %d: %d %s", i, status, body)
		}
	}
}

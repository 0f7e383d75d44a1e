package api

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/records"
)

// TestFollowMachines: a line for each machine, one for each change, and the end with the token.
func TestFollowMachines(t *testing.T) {
	b := newBench(t)
	cl := b.addCluster("harbour", "c-m-h4rb0r55", active)
	b.addMachine(cl, "000000000001", nil)
	web := httptest.NewServer(b.handler)
	defer web.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+"/v1-drover/machines?follow=true&cluster=c-m-h4rb0r55", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.admin)
	answer, err := web.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	next := func() string {
		for lines.Scan() {
			if text := lines.Text(); text != "" {
				return text
			}
		}
		return ""
	}
	if line := next(); !strings.Contains(line, `"name":"custom-000000000001"`) || !strings.Contains(line, `"state":"Registering"`) {
		t.Fatalf("first line %s", line)
	}
	other := b.addCluster("quay", "c-m-qqqqqqqq", nil)
	b.addMachine(other, "000000000009", nil)
	if _, err := b.st.Machines.Modify(ctx, "fleet-default/custom-000000000001", func(m records.Machine) (records.Machine, error) {
		m.Status.State = records.Active
		return m, nil
	}); err != nil {
		t.Fatal(err)
	}
	if line := next(); !strings.Contains(line, `"state":"Active"`) {
		t.Fatalf("after the change: %s", line)
	}
	if err := b.auth.RevokeToken(ctx, "token-admin"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if line := next(); line != "" || time.Since(began) > 10*time.Second {
		t.Errorf("after the token is gone: %q after %s", line, time.Since(began))
	}
}

// TestExpiredTokenIsNamed: whoever holds the right key may learn that its time is over.
func TestExpiredTokenIsNamed(t *testing.T) {
	b := newBench(t)
	text := b.token("u-bob", records.Token{Name: "token-old", TTLMillis: 1000})
	b.pass(time.Minute)
	if r := b.request("GET", "/v3", text, ""); r.status != 401 || !strings.Contains(r.text("message"), "has expired") {
		t.Errorf("right key: %d %s", r.status, r.raw)
	}
	if r := b.request("GET", "/v3", "token-old:x", ""); r.status != 401 || r.text("message") != "must authenticate" {
		t.Errorf("wrong key: %d %s", r.status, r.raw)
	}
}

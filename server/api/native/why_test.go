package native_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

var _ = flag.Bool("update", false, "write the golden files anew")

// trouble is a cluster whose first machine fails and whose second waits for it.
func trouble(b *apibed.Bed) {
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", func(cl *records.Cluster) {
		cl.Status.State, cl.Status.Message, cl.Status.Failed = "provisioning", "failing bootstrap machine(s) custom-000000000001", true
	})
	b.AddMachine(cl, "000000000001", func(m *records.Machine) {
		m.NodeName = "host-1"
		m.Status = records.MachineStatus{
			Init: true, Since: apibed.Start,
			Condition:   records.Condition{State: records.Failed, Code: string(catalogue.PlanFailed), Cause: "install failed", WaitingFor: "the next try", NextStep: "drover machines show custom-000000000001"},
			LastFailure: &records.PlanFailure{Checksum: "abc", At: apibed.Start, Instruction: "install", Output: "unpacking\nno space left\n"},
		}
	})
	b.AddMachine(cl, "000000000002", func(m *records.Machine) {
		m.Roles = records.Roles{Worker: true}
		m.Status = records.MachineStatus{Since: apibed.Start, Condition: records.Condition{
			State: records.WaitingForPlan, Code: string(catalogue.WaitControlPlane), Cause: "custom-000000000002 is waiting for control plane to be available", WaitingFor: "a plan for custom-000000000002",
		}}
	})
	b.AddOperation("op-bcdfghjk", nil)
}

func whyOf(t *testing.T, r apibed.Result) apitypes.Why {
	t.Helper()
	var w apitypes.Why
	if err := json.Unmarshal(r.Raw, &w); err != nil || r.Status != http.StatusOK {
		t.Fatalf("%d %v: %s", r.Status, err, r.Raw)
	}
	return w
}

const whyHarbour = "/v1-drover/clusters/fleet-default/harbour/why"

func TestWhyGolden(t *testing.T) {
	b := apibed.New(t)
	trouble(b)
	b.AskAgent = func(_ context.Context, subject records.Subject, path string) (*http.Response, error) {
		if subject != "fleet-default/custom-000000000001" || path != "/v1/logs?tail=20&unit=k3s" {
			t.Errorf("asked %s for %s", subject, path)
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("starting k3s\nfatal: no space left\n"))}, nil
	}
	r := b.Get(whyHarbour)
	var replace []string
	for _, m := range apibed.Revisions.FindAllStringSubmatch(string(r.Raw), -1) {
		replace = append(replace, `"`+m[1]+`": `+m[2]+",", `"`+m[1]+`": "REVISION",`)
	}
	r.Golden(t, "drover-why", replace...)
	if !strings.Contains(b.Logs.String(), "log of a host read") {
		t.Error("that a host's log was read is not in the log")
	}
	if w := whyOf(t, b.Get("/v1-drover/machines/fleet-default/custom-000000000002/why")); len(w.Causes) != 2 || w.Causes[1].Machine != w.Machine || w.Well {
		t.Errorf("of the machine that waits: %+v", w)
	}
}

// TestWhyWithoutLogs: what cannot be asked is said, and the rest is answered.
func TestWhyWithoutLogs(t *testing.T) {
	for _, c := range []struct {
		name string
		ask  func(ctx context.Context) (*http.Response, error)
		says string
	}{
		{"no tunnel", func(context.Context) (*http.Response, error) { return nil, errors.New("no tunnel from custom-1") }, "the host cannot be asked: no tunnel from custom-1"},
		{"an old agent", func(context.Context) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusNotFound, Body: io.NopCloser(strings.NewReader("404 page not found"))}, nil
		}, "is too old for this; update it"},
		{"a unit that is not there", func(context.Context) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("-- No entries --\n"))}, nil
		}, "it does not exist there, or never wrote anything"},
		{"a host that goes silent", func(ctx context.Context) (*http.Response, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, "the host cannot be asked: context deadline exceeded"},
		{"a log that breaks off", func(context.Context) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(halfway{strings.NewReader("starting\n")})}, nil
		}, "the host cannot be asked: the tunnel ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := apibed.New(t)
			trouble(b)
			b.AskAgent = func(ctx context.Context, _ records.Subject, _ string) (*http.Response, error) { return c.ask(ctx) }
			w := whyOf(t, b.Get(whyHarbour))
			if len(w.Causes) != 2 || w.Causes[0].Log == nil || !strings.Contains(w.Causes[0].Log.Fault, c.says) {
				t.Errorf("%+v", w.Causes)
			}
		})
	}
}

// TestWhyAsksFewHosts: a fleet that fails at once is not asked as a whole.
func TestWhyAsksFewHosts(t *testing.T) {
	b := apibed.New(t)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", nil)
	for _, short := range []string{"1", "2", "3", "4", "5", "6", "7"} {
		b.AddMachine(cl, "00000000000"+short, func(m *records.Machine) {
			m.Status.Condition = records.Condition{State: records.Failed, Code: string(catalogue.PlanFailed), Cause: "it failed"}
		})
	}
	long := strings.Repeat("x", 5000)
	b.AskAgent = func(context.Context, records.Subject, string) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(strings.Repeat("line\n", 30) + long + "\n"))}, nil
	}
	w := whyOf(t, b.Get(whyHarbour))
	asked := 0
	for _, c := range w.Causes {
		if n := len(c.Log.Lines); n > 0 {
			asked++
			if n != 20 || len(c.Log.Lines[19]) != 1024 {
				t.Errorf("%d lines, the last of %d bytes", n, len(c.Log.Lines[n-1]))
			}
		} else if !strings.Contains(c.Log.Fault, "only the first 5 hosts are asked") {
			t.Errorf("not asked: %q", c.Log.Fault)
		}
	}
	if asked != 5 || len(w.Causes) != 7 {
		t.Errorf("%d of %d hosts were asked", asked, len(w.Causes))
	}
}

func TestRevealTokens(t *testing.T) {
	b := apibed.New(t)
	b.AddCluster("harbour", "c-m-h4rb0r55", nil)
	const path = "/v1-drover/clusters/fleet-default/harbour/token"
	b.Want(http.StatusNotFound, "POST", path, "")
	if _, err := b.State.ClusterSecrets.Create(t.Context(), "fleet-default/harbour", records.ClusterSecrets{ServerToken: "s3rver-join", AgentToken: "ag3nt-join"}); err != nil {
		t.Fatal(err)
	}
	if r := b.Request("POST", path, b.User, ""); r.Status != http.StatusNotFound || strings.Contains(string(r.Raw), "join\"") {
		t.Errorf("a user without rights: %d %s", r.Status, r.Raw)
	}
	b.Want(http.StatusMethodNotAllowed, "GET", path, "")
	if strings.Contains(b.Logs.String(), "join tokens revealed") {
		t.Error("a refused request is logged as if it had been answered")
	}
	r := b.Want(http.StatusOK, "POST", path, "")
	if r.Text("server") != "s3rver-join" || r.Text("agent") != "ag3nt-join" {
		t.Errorf("%s", r.Raw)
	}
	logs := b.Logs.String()
	if !strings.Contains(logs, `level=INFO msg="join tokens revealed" cluster=fleet-default/harbour user=user-admin`) || strings.Contains(logs, "s3rver-join") || strings.Contains(logs, "ag3nt-join") {
		t.Errorf("the log has\n%s", logs)
	}
}

// TestFollowACluster: a follower sees each change, and the end when it is removed.
func TestFollowACluster(t *testing.T) {
	b := apibed.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	key := b.AddCluster("harbour", "c-m-h4rb0r55", nil).Key()
	next := followed(ctx, b, t, "/v1-drover/clusters/fleet-default/harbour?follow=true")
	expect := func(want string) {
		t.Helper()
		if got := next(); !strings.HasPrefix(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	expect("c-m-h4rb0r55 pending")
	b.AddCluster("quay", "c-m-qqqqqqqq", nil)
	if _, err := b.State.Clusters.Modify(ctx, key, func(cl records.Cluster) (records.Cluster, error) {
		cl.Status.State = "active"
		return cl, nil
	}); err != nil {
		t.Fatal(err)
	}
	expect("c-m-h4rb0r55 active")
	if err := b.State.Clusters.Delete(ctx, key, 0); err != nil {
		t.Fatal(err)
	}
	expect("the end")
}

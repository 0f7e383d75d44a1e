package clusters

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// delivered is the plan that the machine has.
func (b *bed) delivered() (p plans.Plan) {
	d, _ := b.state.PlanSecrets.Get(machineKey + "-machine-plan")
	if read, err := plans.Parse(d.Value.Data[plans.KeyPlan]); err == nil {
		p = *read
	}
	return p
}

// job waits for one, and has the agent do it.
func (b *bed) job(verb string) {
	b.Helper()
	b.jobSays(verb, "done")
}

// jobSays is a job that prints something.
func (b *bed) jobSays(verb, output string) {
	b.Helper()
	if !b.eventually(func() bool {
		return b.planState() == plans.StatePending && strings.Contains(hostjob.Of(b.delivered().Instructions), "-"+verb+"-")
	}) {
		b.Fatalf("the job %s is not delivered: %+v", verb, b.state.OperationsOf("fleet-default/harbour"))
	}
	id := hostjob.Of(b.delivered().Instructions)
	b.agent(func(o *plans.Outcome) { o.AppliedOutput = map[string][]byte{id: []byte(output)} })
	b.outcome(plans.StateSucceeded)
}

func (b *bed) secrets() records.ClusterSecrets {
	d, _ := b.state.ClusterSecrets.Get("fleet-default/harbour")
	return d.Value
}

// TestTheServerTokenIsRotated: the new token is stored before its host gets it, and is that of the cluster from when etcd has it. A
// preview says what is then done, and stores nothing.
func TestTheServerTokenIsRotated(t *testing.T) {
	b := activeBed(t)
	before := b.secrets()
	asker := &etcdops.Service{State: b.state, Now: b.clock}
	ask := etcdops.Request{Kind: operations.KindRotateToken, By: "user-a"}
	draft, err := asker.Draft("fleet-default/harbour", ask)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := b.control.PreviewOperation(draft)
	if err != nil || b.secrets().Next != nil || len(b.state.OperationsOf("fleet-default/harbour")) != 0 {
		t.Fatalf("%v; the secrets are %+v", err, b.secrets())
	}
	o, err := asker.Begin(t.Context(), "fleet-default/harbour", ask)
	if err != nil {
		t.Fatal(err)
	}
	next := b.secrets().Next
	if next == nil || len(next.Token) != len(before.ServerToken) || next.Token == before.ServerToken || b.secrets().ServerToken != before.ServerToken {
		t.Fatalf("the secrets are %+v", b.secrets())
	}
	if strings.Contains(string(o.Params)+o.Title, next.Token) {
		t.Error("the record of the operation has the token")
	}
	b.job("token")
	if !b.eventually(func() bool {
		return b.planState() == plans.StatePending && hostjob.Of(b.delivered().Instructions) == ""
	}) {
		t.Fatalf("no plan with the new token: %+v", b.state.OperationsOf("fleet-default/harbour"))
	}
	if now := b.secrets(); now.ServerToken != next.Token || now.Next != nil || now.AgentToken != before.AgentToken || len(now.Other) != 1 || now.Other[0].Token != before.ServerToken {
		t.Errorf("the secrets are %+v", now)
	}
	b.outcome(plans.StateSucceeded)
	b.job("prove")
	ended := b.operation(o.ID, operations.Succeeded)
	var titles []string
	for _, task := range ended.Tasks {
		titles = append(titles, task.Title)
	}
	if !slices.Equal(titles, lines) {
		t.Errorf("the preview was %q, done was %q", lines, titles)
	}
}

// TestAPreviewOfAnOperation that could not begin says why.
func TestAPreviewOfAnOperation(t *testing.T) {
	b := newBed(t)
	if _, err := b.control.PreviewOperation(operations.Operation{Subject: "fleet-default/none"}); err == nil {
		t.Error("of a cluster that there is not")
	} else if _, missing := errors.AsType[*store.NotFoundError](err); !missing {
		t.Error(err)
	}
	c := activeBed(t)
	c.set(func() { c.here = false })
	draft, err := (&etcdops.Service{State: c.state, Now: c.clock}).Draft("fleet-default/harbour", etcdops.Request{Kind: operations.KindRotateToken})
	if err != nil {
		t.Fatal(err)
	}
	if lines, err := c.control.PreviewOperation(draft); err == nil || !strings.Contains(err.Error(), "it would not begin: custom-0a1b2c3d4e5f is a server, and ") && !strings.Contains(err.Error(), "is a server, and") {
		t.Errorf("%q, %v", lines, err)
	}
}

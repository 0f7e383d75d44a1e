package decide

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/records"
)

const withFiles = `{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: harbour}, spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {
machineSelectorFiles: [{fileSources: [{secret: {name: files, items: [{key: small, path: /etc/small}, {key: large, path: /etc/large}]}}]}]}}}`

// filesOf puts the Secret of such a cluster into a snapshot.
func filesOf(s *pass.Snapshot, version, small string, large int) {
	s.ObjectsVersion = version
	s.Objects = map[string]objects.Object{"Secret/fleet-default/files": {
		Kind: objects.Secret, Metadata: objects.Metadata{Namespace: "fleet-default", Name: "files", Annotations: map[string]string{objects.AuthorizedObject: "harbour"}},
		Data: map[string][]byte{"small": []byte(small), "large": []byte(strings.Repeat("x", large))},
	}}
}

// TestAChangedObjectIsSeenBesideTheMemo: what is remembered of a plan does not outlive what the plan is made of.
func TestAChangedObjectIsSeenBesideTheMemo(t *testing.T) {
	memo := pass.NewMemo()
	s := snapshot(t, withFiles, func(s *pass.Snapshot) { s.Memo = memo })
	filesOf(&s, "1", "first", 1)
	revision := int64(0)
	decide := func() bool {
		t.Helper()
		d := Decide(s)
		delivered := false
		for _, m := range d.Machines {
			if m.Secret != nil {
				revision++
				s.Machines[0].Secret, s.Machines[0].SecretRevision = m.Secret, revision
			}
			if m.Status != nil {
				machine := *s.Machines[0].Machine
				machine.Status = *m.Status
				s.Machines[0].Machine = &machine
			}
			delivered = delivered || m.Deliver
		}
		if d.Cluster.Status != nil {
			s.Cluster.Status = *d.Cluster.Status
		}
		return delivered
	}
	if !decide() {
		t.Fatal("no first plan")
	}
	// The host carries it out; then the memo knows that it is the wanted one.
	data := s.Machines[0].Secret.Data
	outcome := plans.Outcome{State: plans.StateSucceeded, AppliedChecksum: plans.Checksum(data[plans.KeyPlan])}
	if err := outcome.Write(data); err != nil {
		t.Fatal(err)
	}
	revision++
	s.Machines[0].SecretRevision = revision
	for range 2 {
		if decide() {
			t.Fatal("the same plan was delivered twice")
		}
	}
	filesOf(&s, "2", "second", 1)
	if !decide() || !strings.Contains(string(s.Machines[0].Plan()), base64.StdEncoding.EncodeToString([]byte("second"))) {
		t.Error("the changed Secret makes no new plan")
	}
	s.DefaultRegistry = "mirror.lan"
	if decide(); !strings.Contains(string(s.Machines[0].Plan()), "mirror.lan/rancher/system-agent-installer-k3s") {
		t.Error("the default registry makes no new plan")
	}
}

// TestAPlanThatIsTooLarge: each part may be as large as it wants, and the plan as a whole not.
func TestAPlanThatIsTooLarge(t *testing.T) {
	for _, c := range []struct {
		name  string
		large int
		fits  bool
	}{{"fits", 700 << 10, true}, {"does not", 800 << 10, false}} {
		t.Run(c.name, func(t *testing.T) {
			s := snapshot(t, withFiles, nil)
			filesOf(&s, "1", "first", c.large)
			m := Decide(s).Machines[0]
			if m.Deliver != c.fits {
				t.Errorf("deliver = %v", m.Deliver)
			}
			if c.fits {
				return
			}
			if m.Status.State != records.Failed || m.Status.Code != string(catalogue.BadSpec) || !strings.Contains(m.Status.Cause, "and a plan has at most 1048576; the largest files are /etc/large (") {
				t.Errorf("%s %s: %s", m.Status.State, m.Status.Code, m.Status.Cause)
			}
		})
	}
}

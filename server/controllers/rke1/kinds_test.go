package rke1

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/rke/desired"
)

// Every step that the engine advises of has words, of the cluster where it names a command, but for that of a flag of the command line.
func TestWords(t *testing.T) {
	for kind := advice.BringUp; kind <= advice.RenewCertificates; kind++ {
		said := wordsOf("yard")(advice.Step{Kind: kind, Snapshot: "one", Services: []string{"kubelet", "etcd"}})
		if (said == "") != (kind == advice.AllHosts) || strings.Contains(said, "drover rke") || strings.Contains(said, "cluster.yml") {
			t.Errorf("step %d: %q", kind, said)
		}
	}
	open := advice.With(&change.UnfinishedError{What: "the restore"}, advice.Step{Kind: advice.ResumeRestore, Snapshot: "one"})
	err := advice.Error(fmt.Errorf("begin: %w", open), wordsOf("yard"))
	if err.Error() != "begin: the restore was interrupted and is not finished: `drover snapshots restore yard one` comes first, which goes on with it" || !errors.Is(err, open) {
		t.Error(err)
	}
	if said := wordsOf("yard")(advice.Step{Kind: advice.ResumeCertificates, Services: []string{"kubelet", "etcd"}}); !strings.Contains(said, "`drover clusters rotate certificates yard --service kubelet --service etcd`") {
		t.Error(said)
	}
}

// Each kind that people may ask for can be looked at before, and done.
func TestJobs(t *testing.T) {
	for _, kind := range operations.Kinds() {
		if does, ok := jobs[kind]; ok != operations.RKE1(kind) || ok && (does.preview == nil || does.run == nil) {
			t.Errorf("%s: asked for of RKE1 clusters: %v, and its job is %+v", kind, operations.RKE1(kind), does)
		}
	}
	if _, err := carry(t.Context(), carried{Request: desired.Request{Kind: operations.KindUpgrade}}); err == nil {
		t.Error("a kind of another engine is done")
	}
}

package decide

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
)

// offsite gives the cluster a bucket, and the Secret with its keys.
func (w *world) offsite() {
	rke := *w.s.Cluster.Spec.RKEConfig
	s3 := clusterspec.S3{Endpoint: "s3.lan:9000", Bucket: "harbour", CloudCredentialName: "fleet-default:keys"}
	place := s3.Place()
	rke.ETCD = &clusterspec.ETCD{S3: &s3}
	w.s.Cluster.Spec.RKEConfig = &rke
	w.s.Cluster.Granted = map[string]records.Granted{"Secret/fleet-default/keys": {UID: "uid-keys", Bucket: &place}}
	keys := objects.Object{Kind: objects.Secret, UID: "uid-keys", Metadata: objects.Metadata{Namespace: "fleet-default", Name: "keys"}, Data: map[string][]byte{"accessKey": []byte("AKIA"), "secretKey": []byte("hush")}}
	w.s.Objects = map[string]objects.Object{keys.Key(): keys}
}

// TestRestoreFromS3OntoNewHosts after the loss of all: the new host fetches the snapshot, looks at it, and begins the
// cluster anew with that file. No plan has the bucket's key.
func TestRestoreFromS3OntoNewHosts(t *testing.T) {
	for seed := range orders(4) {
		w := newWorld(t, seed, minimal, allInOne)
		w.offsite()
		w.settle()
		w.hosts["m0"].dead, w.machine("m0").Agent = true, observedGone()
		forgotten := *w.machine("m0").Machine
		forgotten.Deleting, forgotten.Leave.Force = w.s.Now, true
		w.machine("m0").Machine = &forgotten
		w.settle()
		delete(w.hosts, "m0")
		w.add("m5", etcdControl)
		w.add("m6", etcdControl)
		w.settle()
		w.outage, w.limit = true, 100
		w.ask(operations.KindRestore, steps.Request{Snapshot: "on-demand-m0-1", FromS3: true, Size: 5000032, Target: "m5"})
		var links []string
		for w.s.Operation.State == operations.Running && len(w.log) < 2000 {
			w.happens(1)
			for _, m := range w.s.Machines {
				p, ok := pass.Delivered(m.Data())
				if !ok {
					continue
				}
				for _, in := range p.Instructions {
					all := strings.Join(slices.Concat(in.Args, in.Env), "\n")
					if strings.Contains(all, "hush") {
						w.fail("the plan of %s has the bucket's key", m.Name)
					}
					for _, env := range in.Env {
						if link, is := strings.CutPrefix(env, "DROVER_SECRET_LINK="); is && !slices.Contains(links, link) {
							links = append(links, link)
						}
					}
					if jobOf(p) == "restore" && strings.Contains(all, "DROVER_ERRAND") && !slices.Contains(in.Args, "/var/lib/rancher/k3s/drover/fetched/op-abcdefgh/on-demand-m0-1") {
						w.fail("it restores %q", in.Args)
					}
				}
			}
		}
		w.settle()
		w.ended(operations.Succeeded)
		if len(links) != 1 || !strings.HasPrefix(links[0], "https://s3.lan:9000/harbour/on-demand-m0-1?") || w.count("fetch") != 1 {
			w.fail("the links are %q, of %d fetches", links, w.count("fetch"))
		}
		w.s.Operation = nil
		w.settle()
		w.active()
		for _, m := range w.s.Machines {
			if p, _ := pass.Delivered(m.Data()); strings.Contains(string(m.Data()["plan"]), "X-Amz-Signature") || !strings.Contains(settingsOf(p), `"etcd-s3-config-secret": "drover-etcd-s3"`) {
				w.fail("the plan of %s has the link still, or not the bucket", m.Name)
			}
		}
	}
}

// TestARestoreFromS3ThatCannotBeFetched stops nothing, and leaves the cluster as it was.
func TestARestoreFromS3ThatCannotBeFetched(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(*world)
		want   string
	}{
		"no Secret":   {func(w *world) { w.s.Objects = nil }, "there is no secret fleet-default/keys"},
		"the S3 ends": {func(w *world) { w.failing = "fetch" }, "no space left"},
		"it is cut":   {func(w *world) { w.failing = "check" }, "no space left"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, minimal, etcdControl, etcdControl, workerOnly)
			w.limit = 100
			w.offsite()
			w.settle()
			c.breaks(w)
			w.ask(operations.KindRestore, steps.Request{Snapshot: "one", FromS3: true, Size: 1, Target: "m0"})
			w.settle()
			w.failing = ""
			w.ended(operations.Failed)
			if !strings.Contains(w.s.Operation.Reason, c.want) || w.count("stop") > 0 || w.s.Cluster.Status.Restoring != "" {
				w.fail("the operation says %q after %d stops", w.s.Operation.Reason, w.count("stop"))
			}
			w.s.Operation = nil
			w.settle()
			w.active()
		})
	}
}

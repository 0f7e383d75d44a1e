//go:build e2e

package e2e

// The k3s that goes on without drover is imported: by the line that drover prints, with both replicas of drover's own agent, and
// left again as it was.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/drover-project/drover/test/bed"
)

// inCluster runs kubectl on the host, as the cluster's own administrator.
const inCluster = "export KUBECONFIG=/etc/rancher/k3s/k3s.yaml; kubectl() { k3s kubectl \"$@\"; }; "

// seen is what an import and leaving again have to leave alone: the nodes, and the namespaces with their labels and annotations.
const seen = "kubectl get nodes -o name; kubectl get namespaces -o jsonpath='{range .items[*]}{.metadata.name} {.metadata.labels} {.metadata.annotations}{\"\\n\"}{end}'"

func (w *walk) imported() {
	// What is left of a cluster that the server has let go, as the documentation says.
	w.sh(inCluster + "kubectl annotate namespaces --all field.cattle.io/projectId-; kubectl label namespaces --all field.cattle.io/projectId-")
	before := w.sh(inCluster + seen + " | grep -v cattle-")
	line := strings.TrimSpace(w.drover("clusters", "import", "office"))
	for _, time := range []string{"first", "second"} {
		if again := strings.TrimSpace(w.drover("clusters", "import", "office")); again != line {
			w.Errorf("the %s time the line is\n%s\nand was\n%s", time, again, line)
		}
		w.sh(inCluster + line)
	}
	w.awaitCluster("office", "active")
	w.sh(inCluster + "kubectl -n cattle-system wait --for=jsonpath='{.status.readyReplicas}'=2 deployment/cattle-cluster-agent --timeout=120s")

	w.within(time.Now(), "the namespace default is in the project Default", func() error {
		if out := w.sh(inCluster + "kubectl get namespace default -o jsonpath='{.metadata.annotations}'"); !strings.Contains(out, "field.cattle.io/projectId") {
			return fmt.Errorf("its annotations are %s", out)
		}
		return nil
	})
	admin := w.administrator()
	cluster := admin.clusterID("office")
	eve := admin.newPerson("eve")
	if status, _ := eve.ask(http.MethodGet, "/v3/clusters/"+cluster, nil); status != http.StatusNotFound {
		w.Errorf("eve, who has no role, gets status %d for the imported cluster", status)
	}
	member := admin.post("/v3/clusterroletemplatebindings", map[string]any{"clusterId": cluster, "roleTemplateId": "cluster-member", "userId": eve.id})
	eve.fetchKubeconfig(cluster)
	w.within(time.Now(), "eve reads what a member of the imported cluster reads", func() error { return eve.may("get", "persistentvolumes") })
	eve.mayNot("delete", "node", "--all")
	admin.remove("/v3/clusterroletemplatebindings/" + member)

	// The way comes back when an agent does not.
	w.sh(inCluster + "kubectl -n cattle-system delete pod -l app=cattle-cluster-agent --wait=false")
	w.awaitCluster("office", "active")

	w.drover("clusters", "rm", "office", "--yes")
	ctx, cancel := context.WithTimeout(w.ctx, 3*time.Minute)
	defer cancel()
	must(w.T, bed.Await(ctx, "the cluster is left", time.Second, func(ctx context.Context) error {
		out, err := w.host.Sh(ctx, inCluster+seen+"; kubectl get clusterroles,clusterrolebindings -o name | grep -E 'cattle|drover' || true")
		if err == nil && out != before {
			err = fmt.Errorf("in the cluster are\n%s\nand were\n%s", out, before)
		}
		return err
	}))
}

// awaitCluster waits for a state of a cluster.
func (w *walk) awaitCluster(name, state string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 3*time.Minute)
	defer cancel()
	must(w.T, bed.Await(ctx, name+" is "+state, 500*time.Millisecond, func(ctx context.Context) error {
		out, err := w.Drover(ctx, "clusters", "ls", "-o", "json")
		if err != nil {
			return err
		}
		var all []struct{ Name, State, Message string }
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			return err
		}
		for _, one := range all {
			if one.Name == name && strings.EqualFold(one.State, state) {
				return nil
			}
		}
		return fmt.Errorf("clusters: %s", out)
	}))
}

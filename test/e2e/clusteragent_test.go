//go:build e2e

package e2e

// The cluster that the server provisions gets an agent of its own, where the setting says so: it is the first way in then, and the
// host's tunnel stays the second one.

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/drover-project/drover/test/bed"
)

func (w *walk) ownAgent() {
	admin := w.administrator()
	cluster := admin.clusterID("harbour")
	if got, err := admin.via(w.ctx, cluster); err != nil || got == "" || got == "cluster-agent" {
		w.Fatalf("without an agent the way is %q, %v", got, err)
	}
	w.drover("settings", "set", "cluster-agent", "all")
	w.comesBy(admin, cluster, func(way string) bool { return way == "cluster-agent" })
	w.sh(inCluster + "kubectl -n cattle-system wait --for=jsonpath='{.status.readyReplicas}'=2 deployment/cattle-cluster-agent --timeout=120s")
	w.kubectl()

	// The agents are gone, as when the overlay network is down; nothing of the hosts is needed to bring them back.
	w.drover("settings", "set", "cluster-agent", "imported")
	w.sh(inCluster + "kubectl -n cattle-system scale deployment/cattle-cluster-agent --replicas=0")
	w.comesBy(admin, cluster, func(way string) bool { return way != "cluster-agent" })
	w.kubectl()
	w.sh(inCluster + "kubectl -n cattle-system delete deployment cattle-cluster-agent")
}

// comesBy waits until requests come to the cluster by a way.
func (w *walk) comesBy(admin *person, cluster string, wanted func(way string) bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 3*time.Minute)
	defer cancel()
	must(w.T, bed.Await(ctx, "another way into the cluster", 200*time.Millisecond, func(ctx context.Context) error {
		way, err := admin.via(ctx, cluster)
		if err == nil && !wanted(way) {
			err = fmt.Errorf("requests come by %q", way)
		}
		return err
	}))
}

// via is the way that a request to the cluster goes.
func (p *person) via(ctx context.Context, cluster string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.w.URL+"/k8s/clusters/"+cluster+"/version", nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+p.token)
	trust, err := p.w.Trust()
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust}, DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	if err := answer.Body.Close(); err != nil {
		return "", err
	}
	if answer.StatusCode != http.StatusOK {
		return "", errors.New(answer.Status)
	}
	return answer.Header.Get("X-Drover-Via"), nil
}

package authtokens

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-project/drover/plans/clusterauth"
)

var update = flag.Bool("update", false, "write golden files")

const (
	annsToken = "/apis/cluster.cattle.io/v3/namespaces/cattle-system/clusterauthtokens/kubeconfig-u-ann1"
	annsUser  = "/apis/cluster.cattle.io/v3/namespaces/cattle-system/clusteruserattributes/u-ann"
)

// deployed is a cluster that has kube-api-auth.
func deployed(t *testing.T) *apiServer {
	t.Helper()
	s := newAPIServer(t)
	if err := deploy(t.Context(), s.client, "registry.lan/drover/rancher-agent:v1"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"applied namespaces/cattle-system", "applied customresourcedefinitions/clusterauthtokens.cluster.cattle.io",
		"applied customresourcedefinitions/clusteruserattributes.cluster.cattle.io", "applied serviceaccounts/kube-api-auth", "applied roles/kube-api-auth",
		"applied rolebindings/kube-api-auth", "applied daemonsets/kube-api-auth",
	}
	if diff := cmp.Diff(want, s.took()); diff != "" {
		t.Error(diff)
	}
	return s
}

func synced(t *testing.T, s *apiServer, want Objects) []string {
	t.Helper()
	changes, err := Sync(t.Context(), s.client, want, noon)
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

func TestSync(t *testing.T) {
	s := deployed(t)
	want := Desired(snapshot())
	if diff := cmp.Diff([]string{
		"user u-ann written", "secret kubeconfig-u-ann1 written", "token kubeconfig-u-ann1 written", "secret kubeconfig-u-ann2 written", "token kubeconfig-u-ann2 written",
	}, synced(t, s, want)); diff != "" {
		t.Error(diff)
	}
	labels := map[string]any{"app.kubernetes.io/managed-by": "drover"}
	for path, want := range map[string]map[string]any{
		annsToken: {
			"apiVersion": "cluster.cattle.io/v3", "kind": "ClusterAuthToken", "metadata": map[string]any{"name": "kubeconfig-u-ann1", "namespace": "cattle-system", "labels": labels},
			"userName": "u-ann", "expiresAt": "2026-11-23T13:00:00Z", "enabled": true, "hash": "",
		},
		annsUser: {
			"apiVersion": "cluster.cattle.io/v3", "kind": "ClusterUserAttribute", "metadata": map[string]any{"name": "u-ann", "namespace": "cattle-system", "labels": labels},
			"groups": []any{"team://1", "team://2"}, "enabled": true, "lastRefresh": "2026-11-23T12:00:00Z", "needsRefresh": false,
		},
		secretsPath + "/kubeconfig-u-ann1": {
			"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
			"metadata": map[string]any{
				"name": "kubeconfig-u-ann1", "namespace": "cattle-system",
				"labels": map[string]any{"app.kubernetes.io/managed-by": "drover", "drover.cattle.io/cluster-auth-token": "true"},
			},
			"data": map[string]any{"hash": base64.StdEncoding.EncodeToString([]byte("$3:1:hash of kubeconfig-u-ann1"))},
		},
	} {
		if diff := cmp.Diff(want, s.object(path)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	s.took()

	// Uses that the webhook has noted change nothing.
	used := s.object(annsToken)
	used["lastUsedAt"] = "2026-11-23T12:30:00Z"
	s.put(annsToken, used)
	if got := append(synced(t, s, want), s.took()...); len(got) > 0 {
		t.Errorf("again: %v", got)
	}
	// What a person changes is put back, and a hash in the older place does not stay.
	used["hash"], used["enabled"] = "$2::AAAA", false
	s.object(annsUser)["needsRefresh"] = true
	if diff := cmp.Diff([]string{"user u-ann written", "token kubeconfig-u-ann1 written"}, synced(t, s, want)); diff != "" {
		t.Error(diff)
	}
	if got := s.object(annsToken); got["hash"] != "" || got["enabled"] != true || got["lastUsedAt"] != "2026-11-23T12:30:00Z" {
		t.Errorf("token %v", got)
	}
	s.took()

	// What is not wanted goes, tokens first; what is another's stays.
	s.put(strings.Replace(annsToken, "ann1", "other", 1), map[string]any{"metadata": map[string]any{"name": "other"}, "enabled": true})
	s.put(secretsPath+"/agent", map[string]any{"metadata": map[string]any{"name": "agent", "labels": labels}})
	synced(t, s, Objects{})
	if diff := cmp.Diff([]string{
		"deleted clusterauthtokens/kubeconfig-u-ann1", "deleted clusterauthtokens/kubeconfig-u-ann2", "deleted clusteruserattributes/u-ann",
		"deleted secrets/kubeconfig-u-ann1", "deleted secrets/kubeconfig-u-ann2",
	}, s.took()); diff != "" {
		t.Error(diff)
	}
}

// TestASecretThatChanged: a cluster takes the new text of a token, and not the old one any more.
func TestASecretThatChanged(t *testing.T) {
	s := deployed(t)
	want := Desired(snapshot())
	synced(t, s, want)
	want.Hashes["kubeconfig-u-ann2"] = "$3:1:another hash"
	if diff := cmp.Diff([]string{"secret kubeconfig-u-ann2 written"}, synced(t, s, want)); diff != "" {
		t.Error(diff)
	}
	is, _ := s.object(secretsPath + "/kubeconfig-u-ann2")["data"].(map[string]any)
	if hash := base64.StdEncoding.EncodeToString([]byte("$3:1:another hash")); is["hash"] != hash {
		t.Errorf("the cluster has %v", is)
	}
}

func TestHalfATokenIsNobodys(t *testing.T) {
	s := deployed(t)
	s.fails = "PATCH secrets/kubeconfig-u-ann1"
	changes, err := Sync(t.Context(), s.client, Desired(snapshot()), noon)
	if err == nil || !strings.Contains(err.Error(), "secret kubeconfig-u-ann1 not written") || s.object(annsToken) != nil {
		t.Errorf("%v, %v", changes, err)
	}
	if diff := cmp.Diff([]string{"user u-ann written", "secret kubeconfig-u-ann2 written", "token kubeconfig-u-ann2 written"}, changes); diff != "" {
		t.Errorf("one that fails holds others: %s", diff)
	}
}

func TestTypesThatAreMissing(t *testing.T) {
	s := newAPIServer(t)
	if changes, err := Sync(t.Context(), s.client, Desired(snapshot()), noon); !apierrors.IsNotFound(err) || len(changes) > 0 {
		t.Errorf("%v, %v", changes, err)
	}
}

func TestWithdraw(t *testing.T) {
	s := deployed(t)
	synced(t, s, Desired(snapshot()))
	s.took()
	if _, err := withdraw(t.Context(), s.client); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"deleted clusterauthtokens/kubeconfig-u-ann1", "deleted clusterauthtokens/kubeconfig-u-ann2", "deleted clusteruserattributes/u-ann",
		"deleted secrets/kubeconfig-u-ann1", "deleted secrets/kubeconfig-u-ann2", "deleted rolebindings/kube-api-auth", "deleted roles/kube-api-auth",
		"deleted serviceaccounts/kube-api-auth", "deleted daemonsets/kube-api-auth",
	}, s.took()); diff != "" {
		t.Error(diff)
	}
	// A DaemonSet that is another server's is left alone, and so is a cluster that never had one.
	s.put(daemonSet, map[string]any{"metadata": map[string]any{"name": "kube-api-auth"}})
	if changes, err := withdraw(t.Context(), s.client); err != nil || len(changes)+len(s.took()) > 0 {
		t.Errorf("%v, %v", changes, err)
	}
}

func TestAwait(t *testing.T) {
	s := deployed(t)
	go func() {
		for range 4 {
			<-s.changed // of the deployment
		}
		s.put(annsToken, map[string]any{"metadata": map[string]any{}})
	}()
	if err := Await(t.Context(), s.client, "kubeconfig-u-ann1"); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := Await(ctx, s.client, "other"); err == nil || !strings.Contains(err.Error(), "token other is not in the cluster yet") {
		t.Error(err)
	}
}

// The manifest as it is applied.
func TestManifest(t *testing.T) {
	objects, err := Manifest("registry.lan:5000/drover/rancher-agent:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(objects, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/manifest.json"
	if *update {
		if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Error(diff)
	}
	for _, o := range objects {
		if path, err := object(o).path(); err != nil || !strings.HasPrefix(path, "/api") || strings.Contains(path, "IMAGE") {
			t.Errorf("%s %v", path, err)
		}
	}
	if _, err := (object{}).path(); err == nil {
		t.Error("nothing has a path")
	}
	if strings.Contains(string(got), "IMAGE") || !strings.Contains(string(got), clusterauth.Group) {
		t.Error("the manifest is not whole")
	}
}

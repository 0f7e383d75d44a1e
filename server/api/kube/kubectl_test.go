package kube_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-project/drover/test/apibed"
	"github.com/drover-project/drover/test/skips"
)

// kubectl is a kubectl with a kubeconfig for a bench.
type kubectl struct {
	t    *testing.T
	path string
	env  []string
}

func newKubectl(t *testing.T, c *rest.Config) kubectl {
	t.Helper()
	path, err := exec.LookPath("kubectl")
	if err != nil {
		skips.Skip(t, "there is no kubectl in PATH; the other tests send what it sends")
	}
	dir := t.TempDir()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: c.Host, TLSServerName: c.ServerName, CertificateAuthorityData: c.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: c.BearerToken}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: "fleet-default"}
	config.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*config, filepath.Join(dir, "config")); err != nil {
		t.Fatal(err)
	}
	return kubectl{t, path, append(os.Environ(), "KUBECONFIG="+filepath.Join(dir, "config"), "HOME="+dir, "KUBECTL_EXTERNAL_DIFF=diff -u")}
}

func (k kubectl) command(ctx context.Context, input string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, k.path, args...)
	c.Env, c.Stdin = k.env, strings.NewReader(input)
	return c
}

// run runs kubectl, which must succeed and print all of these.
func (k kubectl) run(input, args string, prints ...string) string {
	k.t.Helper()
	out, err := k.command(k.t.Context(), input, strings.Fields(args)...).CombinedOutput()
	if err != nil {
		k.t.Errorf("kubectl %s: %v\n%s", args, err, out)
	}
	k.has(args, string(out), prints)
	return string(out)
}

// fails runs kubectl, which must not succeed and print all of these.
func (k kubectl) fails(input, args string, prints ...string) {
	k.t.Helper()
	out, err := k.command(k.t.Context(), input, strings.Fields(args)...).CombinedOutput()
	if err == nil {
		k.t.Errorf("kubectl %s succeeded:\n%s", args, out)
	}
	k.has(args, string(out), prints)
}

func (k kubectl) has(args, out string, prints []string) {
	k.t.Helper()
	for _, text := range prints {
		if !strings.Contains(out, text) {
			k.t.Errorf("kubectl %s printed\n%s\nwithout %q", args, out, text)
		}
	}
}

func kubeDocument(name, more string) string {
	return "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata:\n  name: " + name + "\nspec:\n  kubernetesVersion: v1.34.4+k3s1\n  rkeConfig:\n    machineGlobalConfig:\n      disable: [traefik]\n" + more
}

// TestKubectlOfClusters is an administrator at work, at the root and below the API of "local".
func TestKubectlOfClusters(t *testing.T) {
	for _, below := range []string{"", "/k8s/clusters/local"} {
		t.Run("at "+below, func(t *testing.T) {
			b := apibed.New(t)
			apibed.Harbour(b)
			k := newKubectl(t, b.KubeServer(t, below))
			k.reads()
			k.writes()
			k.applies()
			k.gitops()
			k.asks()
		})
	}
}

func (k kubectl) reads() {
	k.run("", "api-resources", "provisioning.cattle.io/v1", "machines", "settings", "secrets", "selfsubjectreviews")
	k.run("", "api-versions", "cluster.x-k8s.io/v1beta1", "v1")
	k.run("", "version", "v1.34.0+drover")
	k.run("", "get clusters", "NAME", "READY", "MACHINES", "harbour", "v1.34.4+k3s1")
	k.run("", "get clusters -A -o wide", "NAMESPACE", "fleet-default", "c-m-h4rb0r55")
	k.run("", "get cluster harbour -o yaml", "kubernetesVersion: v1.34.4+k3s1", "resourceVersion:", "kind: Cluster")
	k.run("", "get clusters.management.cattle.io", "c-m-h4rb0r55", "DISPLAY NAME")
	k.run("", "get machines -l cluster.x-k8s.io/cluster-name=harbour --chunk-size=2", "custom-0f31c2aa9d10", "PHASE")
	k.run("", "get machines --field-selector spec.clusterName=none", "No resources found")
	k.run("", "get machines -o name --chunk-size=3", "machine.cluster.x-k8s.io/custom-000000000007")
	k.run("", "get settings server-url -o jsonpath={.default}", "https://drover.example")
	k.run("", "get drover -A", "cluster.provisioning.cattle.io/harbour")
	k.run("", "get ns", "fleet-default")
	k.run("", "explain cluster.spec.rkeConfig", "machineGlobalConfig", "is merged into the distribution's config", "etcdSnapshotCreate")
	k.run("", "explain cluster.spec.rkeConfig.upgradeStrategy.workerDrainOptions.gracePeriod", "<integer>", "in seconds")
	k.run("", "explain machines.status.phase", "Provisioning")
	k.run("", "explain setting.value", "empty for the default")
	k.fails("", "get cluster nothing", `clusters.provisioning.cattle.io "nothing" not found`)
	k.fails("", "get pods", "the server doesn't have a resource type")
	k.fails("", "get clusters --field-selector spec.x=1", "field label not supported")
}

func (k kubectl) writes() {
	k.run(kubeDocument("berth", ""), "create -f -", "cluster.provisioning.cattle.io/berth created")
	k.fails(kubeDocument("berth", ""), "create -f -", "AlreadyExists", `"berth" already exists`)
	k.run("", "label cluster berth tier=one", "labeled")
	k.run("", "get clusters -l tier=one -o name", "berth")
	k.run("", "label cluster berth tier-", "unlabeled")
	k.run("", "get clusters -l tier=one", "No resources found")
	k.run("", `patch cluster berth --type=merge -p {"spec":{"rkeConfig":{"upgradeStrategy":{"workerConcurrency":"2"}}}}`, "patched")
	k.run("", `patch cluster berth --type=json -p [{"op":"replace","path":"/spec/rkeConfig/upgradeStrategy/workerConcurrency","value":"3"}]`, "patched")
	k.run("", "get cluster berth -o jsonpath={.spec.rkeConfig.upgradeStrategy.workerConcurrency}", "3")
	k.fails("", `patch cluster berth --type=merge -p {"spec":{"rkeConfig":{"upgradeStrategy":{"workerConcurrency":"many"}}}}`, "is invalid", "spec.rkeConfig.upgradeStrategy.workerConcurrency")
	k.fails("", `patch cluster berth --type=merge -p {"spec":{"kubernetesVersion":"v1.34.4+rke2r1","rkeConfig":{"machineGlobalConfig":null}}}`, "the distribution cannot be changed")
	k.run(kubeDocument("berth", ""), "replace -f -", "replaced")
	editor := filepath.Join(k.t.TempDir(), "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\nsed -i 's/traefik/servicelb/' \"$1\"\n"), 0o700); err != nil { // a program
		k.t.Fatal(err)
	}
	edit := k
	edit.env = append(edit.env, "KUBE_EDITOR="+editor)
	edit.run("", "edit cluster berth", "edited")
	k.run("", "get cluster berth -o jsonpath={.spec.rkeConfig.machineGlobalConfig.disable}", "servicelb")
	k.fails(kubeDocument("berth", "      tls-sann: [x]\n"), "replace -f -", "tls-sann")
	k.fails(kubeDocument("wharf", "  rkeConfg: {}\n"), "create -f -", `unknown field "spec.rkeConfg"`)
	k.run(kubeDocument("wharf", "  rkeConfg: {}\n"), "create --validate=warn -f -", `Warning: unknown field "spec.rkeConfg"`, "created")
	k.run("", "delete cluster wharf --wait=false", "deleted")
	k.run("", "get cluster wharf -o jsonpath={.metadata.deletionTimestamp}{.metadata.finalizers}", "2026-", "drover.dev/removal")
	k.run("", `patch setting ui-pl --type=merge -p {"value":"boats"}`, "patched")
	k.run("", "get setting ui-pl", "boats", "db")
	k.run("", `patch setting ui-pl --type=merge -p {"value":""}`, "patched")
	k.run("", "get setting ui-pl", "drover", "default")
	k.fails("", `patch setting cacerts --type=merge -p {"value":"x"}`, "cannot be written")
	k.fails("", `patch setting server-url --type=merge -p {"value":"x"}`, "https://")
	k.fails("", "delete setting ui-pl", "not possible here")
	k.fails("", "delete machine custom-0f31c2aa9d10", "not possible here")
}

// gitops is what a pipeline does with the example of a repository.
func (k kubectl) gitops() {
	for range 2 { // the second time nothing is to be changed
		k.run("", "apply --server-side -k ../../../examples/gitops", "cluster.provisioning.cattle.io/north serverside-applied", "cluster.provisioning.cattle.io/south serverside-applied")
	}
	k.run("", "get clusters -l managed-by=git -o name", "cluster.provisioning.cattle.io/north", "cluster.provisioning.cattle.io/south")
	k.run("", "diff --server-side -k ../../../examples/gitops")
	k.run("", "delete --wait=false -k ../../../examples/gitops", "north", "south")
}

func (k kubectl) asks() {
	k.run("", "auth can-i create clusters.provisioning.cattle.io", "yes")
	k.run("", "auth can-i --list", "clusters.provisioning.cattle.io", "settings.management.cattle.io")
	k.run("", "auth whoami", "user-admin")
	k.fails("", "auth can-i delete machines.cluster.x-k8s.io", "no")
}

func (k kubectl) applies() {
	k.fails(kubeDocument("pier", ""), "diff -f -", "+  name: pier", "+  kubernetesVersion: v1.34.4+k3s1")
	k.run(kubeDocument("pier", ""), "apply -f -", "cluster.provisioning.cattle.io/pier created")
	k.run(kubeDocument("pier", ""), "apply -f -", "pier unchanged")
	k.run(kubeDocument("pier", ""), "diff -f -")
	changed := strings.Replace(kubeDocument("pier", ""), "traefik", "servicelb", 1)
	k.fails(changed, "diff -f -", "-      - traefik", "+      - servicelb")
	k.run(changed, "apply -f -", "pier configured")
	k.run(strings.Replace(changed, "    machineGlobalConfig:\n      disable: [servicelb]\n", "    provisionGeneration: 1\n", 1), "apply -f -", "configured")
	k.run("", "get cluster pier -o jsonpath={.spec.rkeConfig}", `{"provisionGeneration":1}`)

	// Server-side apply, with two managers.
	own := func(more string) string {
		return "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata:\n  name: slip\nspec:\n" + more
	}
	k.run(kubeDocument("slip", ""), "apply --server-side --field-manager=one -f -", "slip serverside-applied")
	k.run(kubeDocument("slip", ""), "diff --server-side --field-manager=one -f -")
	k.fails(own("  kubernetesVersion: v1.33.8+k3s1\n"), "apply --server-side --field-manager=two -f -", "conflict", `"one"`, ".spec.kubernetesVersion")
	k.run(own("  rkeConfig:\n    upgradeStrategy: {workerConcurrency: '2'}\n"), "apply --server-side --field-manager=two -f -", "serverside-applied")
	k.run("", "get cluster slip -o jsonpath={.spec.rkeConfig.upgradeStrategy.workerConcurrency}{.spec.rkeConfig.machineGlobalConfig.disable[0]}", "2traefik")
	k.run("", "get cluster slip --show-managed-fields -o jsonpath={.metadata.managedFields[*].manager}", "one", "two")
	k.run(own("  rkeConfig: {}\n"), "apply --server-side --field-manager=two -f -", "serverside-applied")
	if out := k.run("", "get cluster slip -o jsonpath={.spec.rkeConfig}", "traefik"); strings.Contains(out, "workerConcurrency") {
		k.t.Errorf("what nobody wants any more stays: %s", out)
	}
	k.run(own("  kubernetesVersion: v1.34.4+k3s1\n"), "apply --server-side --field-manager=two --force-conflicts -f -", "serverside-applied")
	k.fails(own("  kubernetesVersion: v1.34.4+k3s1\n  rkeConfg: {}\n"), "apply --server-side --field-manager=two -f -", "unknown field", "rkeConfg")
}

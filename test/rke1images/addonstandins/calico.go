package main

// calico: the agent of a node, which here only asks for its rights and keeps one object; its installer and CNI plugin,
// which gives pods addresses of the node's own range on a bridge; and its controllers. There are no policies.

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const calicoGroup = "crd.projectcalico.org"

// calicoLists are the kinds that calico reads when it starts, all of which have to be there.
func calicoLists() []string {
	return strings.Fields("bgpconfigurations bgppeers blockaffinities clusterinformations felixconfigurations globalnetworkpolicies " +
		"globalnetworksets hostendpoints ipamblocks ippools networkpolicies networksets")
}

func calicoNode(ctx context.Context, _ []string) error {
	for _, name := range []string{"NODENAME", "DATASTORE_TYPE", "FELIX_HEALTHENABLED", "CALICO_CNI_SERVICE_ACCOUNT"} {
		if os.Getenv(name) == "" {
			return fmt.Errorf("the variable %s is empty", name)
		}
	}
	a, err := inCluster()
	if err != nil {
		return err
	}
	ready := &atomic.Bool{}
	serve(ctx, "localhost:9099", ready, "/readiness", "/liveness")
	const read = "get list watch"
	return tend(ctx, ready, func(ctx context.Context) error {
		if ready.Load() {
			return nil
		}
		if err := a.may(ctx, []right{
			{read, "", "pods nodes namespaces serviceaccounts endpoints services", ""},
			{"list watch", "discovery.k8s.io", "endpointslices", ""}, {"get", "", "configmaps", ""},
			{"patch update", "", "nodes/status", ""}, {"patch", "", "pods/status", ""},
			{"list watch", "networking.k8s.io", "networkpolicies", ""},
			{"create update", calicoGroup, "ippools felixconfigurations clusterinformations bgpconfigurations bgppeers", ""},
		}); err != nil {
			return err
		}
		for _, kind := range calicoLists() {
			if _, err := a.objects.Resource(schema.GroupVersionResource{Group: calicoGroup, Version: "v1", Resource: kind}).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
				return err
			}
		}
		return a.keepInformation(ctx)
	})
}

// keepInformation writes an object whose fields the definition of its kind must let through.
func (a api) keepInformation(ctx context.Context) error {
	all := a.objects.Resource(schema.GroupVersionResource{Group: calicoGroup, Version: "v1", Resource: "clusterinformations"})
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": calicoGroup + "/v1", "kind": "ClusterInformation", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{"datastoreReady": true, "clusterType": os.Getenv("CLUSTER_TYPE")},
	}}
	if _, err := all.Create(ctx, o, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	is, err := all.Get(ctx, "default", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if ready, _, _ := unstructured.NestedBool(is.Object, "spec", "datastoreReady"); !ready {
		return fmt.Errorf("the ClusterInformation lost its fields: %v", is.Object["spec"])
	}
	return nil
}

// calicoNodeCommand is what probes and hooks call beside the agent.
func calicoNodeCommand(ctx context.Context, args []string) error {
	switch strings.Join(args, " ") {
	case "-felix-live", "-shutdown", "-felix-live -bird-live":
		return nil
	case "-felix-ready", "-felix-ready -bird-ready":
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost:9099/readiness", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	}
	return fmt.Errorf("knows no flags %q", args)
}

// installCNI puts plugins and their configuration on the host, with a token of the account for the plugin.
func installCNI(ctx context.Context, _ []string) error {
	a, err := inCluster()
	if err != nil {
		return err
	}
	namespace, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return err
	}
	day := int64(24 * 3600)
	token, err := a.CoreV1().ServiceAccounts(string(namespace)).CreateToken(ctx, os.Getenv("CALICO_CNI_SERVICE_ACCOUNT"),
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	ca, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
	if err != nil {
		return err
	}
	const dir = "/host/etc/cni/net.d/"
	server := "https://" + net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	kubeconfig := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
"clusters": [{"name": "c", "cluster": {"server": %q, "certificate-authority-data": %q}}], "users": [{"name": "u", "user": {"token": %q}}]}`,
		server, base64.StdEncoding.EncodeToString(ca), token.Status.Token)
	config := strings.NewReplacer("__KUBERNETES_NODE_NAME__", os.Getenv("KUBERNETES_NODE_NAME"), "__CNI_MTU__", os.Getenv("CNI_MTU"),
		"__KUBECONFIG_FILEPATH__", "/etc/cni/net.d/calico-kubeconfig").Replace(os.Getenv("CNI_NETWORK_CONFIG"))
	if !json.Valid([]byte(config)) {
		return fmt.Errorf("CNI_NETWORK_CONFIG is not JSON: %s", config)
	}
	plugins, err := filepath.Glob("/opt/cni/bin/*")
	if err != nil {
		return err
	}
	for _, plugin := range plugins {
		if filepath.Base(plugin) == "install" {
			continue
		}
		if err := put("/host"+plugin, 0o755, func() ([]byte, error) { return os.ReadFile(plugin) }); err != nil {
			return err
		}
	}
	return errors.Join(
		put(dir+"calico-kubeconfig", 0o600, func() ([]byte, error) { return []byte(kubeconfig), nil }),
		put(dir+os.Getenv("CNI_CONF_NAME"), 0o644, func() ([]byte, error) { return []byte(config), nil }))
}

// put writes a file beside its place and renames it.
func put(path string, mode os.FileMode, read func() ([]byte, error)) error {
	content, err := read()
	if err != nil {
		return err
	}
	beside := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	if err := os.WriteFile(beside, content, mode); err != nil {
		return err
	}
	return os.Rename(beside, path)
}

// cniPlugin is the plugin calico on the host: it asks the API for the node's range and lets the bridge plugin do the work.
func cniPlugin(ctx context.Context, _ []string) error {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	var c struct {
		CNIVersion, Name, NodeName string
		MTU                        int
		Kubernetes                 struct{ Kubeconfig string }
	}
	if err := json.Unmarshal(input, &c); err != nil {
		return cniFault(err)
	}
	if os.Getenv("CNI_COMMAND") == "VERSION" {
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"cniVersion": "1.0.0", "supportedVersions": []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0"}})
	}
	pods, err := rangeOf(ctx, c.Kubernetes.Kubeconfig, c.NodeName)
	if err != nil {
		return cniFault(err)
	}
	ipam := map[string]any{"type": "host-local", "ranges": [][]any{{map[string]any{"subnet": pods.String()}}}}
	delegate, err := json.Marshal(map[string]any{
		"cniVersion": c.CNIVersion, "name": c.Name, "type": "bridge", "bridge": "cni0", "isDefaultGateway": true, "hairpinMode": true, "mtu": c.MTU, "ipam": ipam,
	})
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, filepath.Join(filepath.Dir(os.Args[0]), "bridge"))
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(string(delegate)), os.Stdout, os.Stderr
	return command.Run()
}

func cniFault(err error) error {
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(map[string]any{"cniVersion": "0.3.1", "code": 100, "msg": "calico: " + err.Error()}))
}

func rangeOf(ctx context.Context, kubeconfig, node string) (netip.Prefix, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return netip.Prefix{}, err
	}
	config.Timeout = 20 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return netip.Prefix{}, err
	}
	n, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.ParsePrefix(n.Spec.PodCIDR)
}

// statusFile is where the controllers say how they are.
const statusFile = "/tmp/status"

func kubeControllers(ctx context.Context, _ []string) error {
	a, err := inCluster()
	if err != nil {
		return err
	}
	const read = "get list watch"
	const all = read + " create update"
	return tend(ctx, &atomic.Bool{}, func(ctx context.Context) error {
		err := a.may(ctx, []right{
			{read, "", "nodes pods namespaces serviceaccounts", ""}, {"list watch", "networking.k8s.io", "networkpolicies", ""},
			{read, calicoGroup, "ippools ipreservations", ""}, {all + " delete", calicoGroup, "blockaffinities hostendpoints ipamblocks ipamhandles", ""},
			{all, calicoGroup, "clusterinformations kubecontrollersconfigurations", ""},
		})
		if err != nil {
			return errors.Join(err, os.Remove(statusFile))
		}
		return os.WriteFile(statusFile, []byte("ready"), 0o644)
	})
}

func checkStatus(_ context.Context, args []string) error {
	switch strings.Join(args, " ") {
	case "-l":
		return nil
	case "-r":
		_, err := os.Stat(statusFile)
		return err
	}
	return fmt.Errorf("knows no flags %q", args)
}

// flexVolume puts the driver on the host.
func flexVolume(context.Context, []string) error {
	return put("/host/driver/uds", 0o755, func() ([]byte, error) { return []byte("#!/bin/sh\n# stand-in of the driver\n"), nil })
}

// What is asked of the cluster's own API before an upgrade.

package upgrades

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/rke1/kube/bounds"
)

const (
	// askLimit bounds all questions together, and statsLimit that to one host.
	askLimit   = 20 * time.Second
	statsLimit = 3 * time.Second
	// maxNodes is how many nodes are looked at, and maxStats how many servers are asked for their disks.
	maxNodes = 500
	maxStats = 9
	// maxMetrics bounds what is read of the metrics of an API server, in bytes, and maxAPIs the APIs that are kept.
	maxMetrics = 64 << 20
	maxAPIs    = 200
)

// ask is what the cluster's API says of nodes and of APIs in use; the error says why it says nothing.
func ask(ctx context.Context, client kubernetes.Interface) ([]Node, []API, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var nodes []Node
	_, err := bounds.Each(ctx, bounds.Nodes, metav1.ListOptions{}, client.CoreV1().Nodes().List, func(one *corev1.Node) error {
		if nodes = append(nodes, nodeOf(one)); len(nodes) == maxNodes {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, nil, fmt.Errorf("list its nodes: %w", err)
	}
	asked := 0
	for i, n := range nodes {
		if n.Server && n.NotReady == "" && asked < maxStats {
			asked++
			nodes[i].Free, nodes[i].Known = free(ctx, client, n.Name)
		}
	}
	stream, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").Stream(ctx)
	if err != nil {
		return nodes, nil, fmt.Errorf("read the metrics of its API server: %w", err)
	}
	defer stream.Close()
	apis, err := readAPIs(stream)
	return nodes, apis, err
}

// errEnough ends a list of which enough was read.
var errEnough = errors.New("enough was read")

// serverLabels are of nodes that run more than pods.
var serverLabels = []string{"node-role.kubernetes.io/etcd", "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/controlplane"}

func nodeOf(node *corev1.Node) Node {
	n := Node{Name: node.Name, NotReady: "it has reported no condition Ready"}
	for _, label := range serverLabels {
		n.Server = n.Server || node.Labels[label] == "true"
	}
	for _, c := range node.Status.Conditions {
		switch {
		case c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue:
			n.NotReady = ""
		case c.Type == corev1.NodeReady:
			n.NotReady = fmt.Sprintf("%s: %s", c.Reason, c.Message)
		case c.Type == corev1.NodeDiskPressure:
			n.Pressure = c.Status == corev1.ConditionTrue
		}
	}
	return n
}

// free is how much room the kubelet says that its file system has.
func free(ctx context.Context, client kubernetes.Interface, node string) (bytes int64, known bool) {
	ctx, cancel := context.WithTimeout(ctx, statsLimit)
	defer cancel()
	rest := client.CoreV1().RESTClient()
	text, err := rest.Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("stats/summary").Param("only_cpu_and_memory", "false").Do(ctx).Raw()
	var summary struct {
		Node struct {
			FS struct {
				Available *int64 `json:"availableBytes"`
			} `json:"fs"`
		} `json:"node"`
	}
	if err != nil || json.Unmarshal(text, &summary) != nil || summary.Node.FS.Available == nil {
		return 0, false // the upgrade does not fail by what a kubelet does not report
	}
	return *summary.Node.FS.Available, true
}

// metric counts an API that is deprecated and that a client asked for. Source: kubernetes/kubernetes
// staging/src/k8s.io/apiserver/pkg/endpoints/metrics, requested_deprecated_apis.
const metric = "apiserver_requested_deprecated_apis{"

var label = regexp.MustCompile(`(\w+)="([^"\\]*)"`)

// readAPIs reads the metrics of an API server.
func readAPIs(metrics io.Reader) ([]API, error) {
	lines := bufio.NewScanner(io.LimitReader(metrics, maxMetrics))
	lines.Buffer(nil, 1<<20)
	var found []API
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), metric)
		if !ok || len(found) >= maxAPIs {
			continue
		}
		labels := map[string]string{}
		for _, pair := range label.FindAllStringSubmatch(text, -1) {
			labels[pair[1]] = pair[2]
		}
		resource := labels["resource"]
		if sub := labels["subresource"]; sub != "" {
			resource += "/" + sub
		}
		found = append(found, API{Group: labels["group"], Version: labels["version"], Resource: resource, Removed: labels["removed_release"]})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the metrics of its API server: %w", err)
	}
	return found, nil
}

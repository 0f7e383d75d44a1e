//go:build ignore

package main

// The network. The pods' own comes from the flannel inside of the supervisor, whatever is asked for. What is seen of the
// one that was asked for is a pod on each node that answers the probe of its node agent.

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"text/template"
)

// defaultNetwork is RKE2's when nothing is asked for.
const defaultNetwork = "canal"

// networks are those whose node agent answers on 127.0.0.1:9099, with its namespace and its name.
var networks = map[string]struct{ Namespace, Name string }{
	"calico": {"calico-system", "calico-node"},
	"canal":  {"kube-system", "rke2-canal"},
}

// The image has the same name in all versions: nodes that are not upgraded yet have no other one.
var networkManifest = template.Must(template.New("network").Parse(`apiVersion: v1
kind: Namespace
metadata:
  name: {{.Namespace}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{.Name}}
  namespace: {{.Namespace}}
spec:
  selector:
    matchLabels: {k8s-app: {{.Name}}}
  template:
    metadata:
      labels: {k8s-app: {{.Name}}}
    spec:
      hostNetwork: true
      priorityClassName: system-node-critical
      tolerations:
      - operator: Exists
      containers:
      - name: calico-node
        image: {{.Image}}
        imagePullPolicy: IfNotPresent
        command: [calico-node]
        readinessProbe:
          httpGet: {host: 127.0.0.1, port: 9099, path: /readiness}
`))

// deployNetwork writes the manifest that the supervisor deploys.
func deployNetwork(dataDir, registry string, wanted []string) error {
	if len(wanted) == 0 {
		wanted = []string{defaultNetwork}
	}
	for name, network := range networks {
		if !slices.Contains(wanted, name) {
			continue
		}
		image := "rancher/hardened-calico:standin"
		if registry != "" {
			image = registry + "/" + image
		}
		var text bytes.Buffer
		if err := networkManifest.Execute(&text, map[string]string{"Namespace": network.Namespace, "Name": network.Name, "Image": image}); err != nil {
			return err
		}
		path := filepath.Join(dataDir, "server", "manifests", "rke2-"+name+".yaml")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("deploy %s: %w", name, err)
		}
		if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
			return fmt.Errorf("deploy %s: %w", name, err)
		}
	}
	return nil
}

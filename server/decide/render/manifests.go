// What the deploy controller applies on the control plane.

package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/plans"
)

// manifests are the files that the deploy controller applies. They are written empty rather than left
// out: emptying one removes what it had created.
func (r render) manifests(config map[string]any) ([]plans.File, error) {
	var files []plans.File
	dir := r.distribution.ManifestDir(r.dataDir)
	if r.Machine.Roles.ControlPlane {
		files = append(files, plans.File{Path: path.Join(dir, "addons.yaml"), Content: plans.EncodeContent([]byte(r.rke.AdditionalManifest)), Dynamic: true})
	}
	if r.server() {
		charts, err := r.charts(config)
		if err != nil {
			return nil, err
		}
		files = append(files, plans.File{Path: path.Join(dir, "managed-chart-config.yaml"), Content: plans.EncodeContent(charts), Dynamic: true})
	}
	return files, nil
}

// vsphere is the cloud provider whose storage chart has to know the cluster, and csiChart that chart.
const (
	vsphere  = "rancher-vsphere"
	csiChart = "rancher-vsphere-csi"
)

// charts is a stream of HelmChartConfigs, one a chart, sorted by name.
func (r render) charts(config map[string]any) ([]byte, error) {
	charts := maps.Clone(r.rke.ChartValues)
	if _, given := charts[csiChart]; !given && config["cloud-provider-name"] == vsphere {
		charts = with(charts, csiChart, nil)
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(charts)) {
		values := map[string]any{}
		if given, ok := charts[name].(map[string]any); ok {
			maps.Copy(values, given)
		}
		global, _ := values["global"].(map[string]any)
		cattle, _ := global["cattle"].(map[string]any)
		cattle = with(cattle, "clusterId", r.Cluster.ID)
		values["global"] = with(global, "cattle", cattle)
		content, err := json.Marshal(values)
		if err != nil {
			return nil, fmt.Errorf("render the values of chart %s: %w", name, err)
		}
		doc, err := yaml.Marshal(map[string]any{
			"apiVersion": "helm.cattle.io/v1", "kind": "HelmChartConfig",
			"metadata": map[string]any{"name": name, "namespace": "kube-system"},
			"spec":     map[string]any{"valuesContent": string(content)},
		})
		if err != nil {
			return nil, fmt.Errorf("render chart %s: %w", name, err)
		}
		text.WriteString("---\n")
		text.Write(doc)
	}
	return []byte(text.String()), nil
}

func with(m map[string]any, key string, value any) map[string]any {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]any{}
	}
	m[key] = value
	return m
}

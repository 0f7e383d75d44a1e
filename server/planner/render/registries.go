// Registries: where images are fetched, and whom to trust there.

package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans"
)

// registries is registries.yaml, empty when the cluster has none.
func (r render) registries() ([]byte, error) {
	reg := r.rke.Registries
	if reg == nil || len(reg.Mirrors)+len(reg.Configs) == 0 {
		return nil, nil
	}
	doc := map[string]any{}
	if len(reg.Mirrors) > 0 {
		doc["mirrors"] = reg.Mirrors
	}
	if len(reg.Configs) > 0 {
		configs := map[string]any{}
		for host, c := range reg.Configs {
			tls := map[string]any{"ca_file": "", "cert_file": "", "key_file": "", "insecure_skip_verify": c.InsecureSkipVerify}
			if c.CABundle != "" {
				tls["ca_file"] = r.registryCA(host)
			}
			configs[host] = map[string]any{"tls": tls}
		}
		doc["configs"] = configs
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("render the registries of cluster %s: %w", r.Cluster.Name, err)
	}
	return b, nil
}

func (r render) registryCA(host string) string {
	return path.Join(r.dataDir, "etc/tls/registries", strings.ReplaceAll(host, "/", "_"), "ca.crt")
}

func (r render) registryCAs() []plans.File {
	var files []plans.File
	if r.rke.Registries == nil {
		return nil
	}
	for _, host := range slices.Sorted(maps.Keys(r.rke.Registries.Configs)) {
		if ca := r.rke.Registries.Configs[host].CABundle; ca != "" {
			files = append(files, plans.File{Path: r.registryCA(host), Content: plans.EncodeContent([]byte(ca))})
		}
	}
	return files
}

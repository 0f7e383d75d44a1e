// Upgrades of RKE1 clusters, whose version is in the config of the engine.

package upgrades

import (
	"encoding/json"
	"fmt"
	"strings"

	rke1versions "github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/clusterspec"
)

// rke1 is whether an RKE1 cluster may have the version.
func (f *finder) rke1() {
	to, ok := rke1versions.Parse(f.to)
	switch {
	case !ok:
		f.refuse("version-form", "", "%.60q is not a version of RKE1, such as v1.32.5-rancher1-1", f.to)
		return
	case !f.known:
		f.refuse("version-unknown", "", "there are no data of version %s; known are %s", f.to, strings.Join(f.nearest, ", "))
	}
	if len(f.running) == 0 {
		return
	}
	from, ok := rke1versions.Parse(f.running[0])
	switch {
	case !ok:
	case to.Compare(from) < 0:
		f.refuse("downgrade", "drover snapshots restore "+f.cluster.Name+" SNAPSHOT goes back with a snapshot of then", "a cluster cannot go back from %s to %s", f.running[0], f.to)
	case to.Major == from.Major && to.Minor > from.Minor+1:
		f.refuse("skipped-minor", "go through each minor line", "the way from %s to %s leaves out a minor line, which Kubernetes does not support", f.running[0], f.to)
	}
}

// withVersion is the spec of a cluster with another Kubernetes version.
func withVersion(spec clusterspec.Spec, to string) (clusterspec.Spec, error) {
	if !spec.RKE1() {
		spec.KubernetesVersion = to
		return spec, nil
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(spec.RKE1Text(), &fields); err != nil {
		return spec, fmt.Errorf("read the config of the cluster as it is stored: %w", err)
	}
	version, err := json.Marshal(to)
	if err != nil {
		return spec, fmt.Errorf("write the version: %w", err)
	}
	fields["kubernetesVersion"] = version
	text, err := json.Marshal(fields)
	if err != nil {
		return spec, fmt.Errorf("write the config of the cluster: %w", err)
	}
	config := clusterspec.RancherKubernetesEngineConfig(text)
	spec.RancherKubernetesEngineConfig = &config
	return spec, nil
}

// The distribution's settings on a machine: what the owner wants, and what drover adds by its roles.

package render

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/snapshotbucket"
)

// config are the keys of 50-rancher.yaml.
func (r render) config() map[string]any {
	config := r.userConfig()
	roles := r.Machine.Roles
	if r.rke.DataDirectories != nil && r.rke.DataDirectories.K8sDistro != "" {
		config["data-dir"] = r.dataDir
	}
	config["private-registry"] = r.distribution.RegistriesFile()
	if r.Machine.NodeName != "" {
		config["node-name"] = r.Machine.NodeName
	}
	if r.server() {
		config["token"] = r.Secrets.ServerToken
		config["agent-token"] = r.Secrets.AgentToken
		if _, given := config["cni"]; !given && r.distribution.DefaultCNI != "" {
			config["cni"] = r.distribution.DefaultCNI
		}
		if registry := r.registry(); registry != "" {
			config["system-default-registry"] = registry
		}
	} else {
		config["token"] = r.Secrets.AgentToken
	}
	if r.Server != "" {
		config["server"] = r.Server
	}
	r.byRole(config, roles)
	r.addresses(config)
	config["node-label"] = r.nodeLabels()
	if taints := r.nodeTaints(); len(taints) > 0 {
		config["node-taint"] = taints
	}
	return config
}

// byRole adds what a server with some of the roles runs and what it leaves to others.
func (r render) byRole(config map[string]any, roles records.Roles) {
	if roles.Etcd {
		if r.Server == "" && r.distribution.ClusterInit {
			config["cluster-init"] = true
		}
		r.snapshots(config)
	}
	if roles.Etcd && !roles.ControlPlane {
		for _, key := range []string{"disable-apiserver", "disable-controller-manager", "disable-scheduler"} {
			config[key] = true
		}
	}
	if roles.ControlPlane {
		if !roles.Etcd {
			config["disable-etcd"] = true
		}
		for _, c := range installers.Components() {
			user := texts(config[c.ArgKey])
			config[c.ArgKey] = c.Args(user, r.dataDir)
			mounts := texts(config[c.MountKey])
			if r.version > 1 || !installers.OwnCertificate(user) {
				mounts = c.Mounts(mounts, user, r.dataDir)
			}
			if r.distribution.ComponentMounts && len(mounts) > 0 {
				config[c.MountKey] = mounts
			}
		}
	}
	if r.authEndpoint() {
		config["kube-apiserver-arg"] = webhookArgs(texts(config["kube-apiserver-arg"]), r.webhookFile())
	}
}

// registry is where images without a registry come from on this machine: that of the cluster, or else the server's default.
func (r render) registry() string {
	if own, _ := r.merged()["system-default-registry"].(string); own != "" {
		return own
	}
	return r.DefaultRegistry
}

// userConfig merges the global config and each matching selector's, key by key, last writer wins,
// and leaves out what is only for servers on a machine that is none.
func (r render) userConfig() map[string]any {
	config := r.merged()
	for key := range config {
		_, forServers := r.Release.ServerArgs[key]
		_, forAll := r.Release.AgentArgs[key]
		if forServers && !forAll && !r.server() {
			delete(config, key)
		}
	}
	return config
}

// merged is what the owner wrote for this machine, settings of servers included.
func (r render) merged() map[string]any {
	var release versions.Release
	if r.Release != nil {
		release = *r.Release
	}
	config := map[string]any{}
	clusterspec.MergeArgs(config, r.rke.MachineGlobalConfig, release)
	for _, s := range r.rke.MachineSelectorConfig {
		if s.MachineLabelSelector.Matches(r.Machine.Labels) {
			clusterspec.MergeArgs(config, s.Config, release)
		}
	}
	return config
}

// plugins are the network plugins of the machine. On a worker, too, they are those of the settings
// that reach servers only.
func (r render) plugins() []string {
	if r.distribution.DefaultCNI == "" {
		return nil
	}
	if plugins := installers.PluginsOf(texts(r.merged()["cni"])); len(plugins) > 0 {
		return plugins
	}
	return []string{r.distribution.DefaultCNI}
}

// fileSettings are settings whose value is the text of a file, in the order of their files. A
// value that is the path of a file on the host stays what it is.
var fileSettings = []string{"audit-policy-file", clusterspec.CloudConfig, "flannel-conf"}

// settingFiles are the files of such settings; the settings become their paths.
func (r render) settingFiles(config map[string]any) ([]plans.File, error) {
	var files []plans.File
	for _, key := range fileSettings {
		text, ok := config[key].(string)
		if !ok || path.IsAbs(text) && !strings.Contains(text, "\n") {
			continue
		}
		content, err := r.settingText(key, text)
		if err != nil {
			return nil, fmt.Errorf("%s of cluster %s: %w", key, r.Cluster.Key(), err)
		}
		name := path.Join(r.dataDir, "etc/config-files", key)
		config[key] = name
		files = append(files, plans.File{Path: name, Content: plans.EncodeContent(content)})
	}
	return files, nil
}

func (r render) snapshots(config map[string]any) {
	e := r.rke.ETCD
	if e == nil {
		return
	}
	if e.DisableSnapshots {
		config["etcd-disable-snapshots"] = true
	}
	if e.SnapshotRetention > 0 {
		config["etcd-snapshot-retention"] = e.SnapshotRetention
	}
	if e.SnapshotScheduleCron != "" {
		config["etcd-snapshot-schedule-cron"] = e.SnapshotScheduleCron
	}
	if e.S3.Enabled() {
		// Where it is, and its keys, are in the Secret alone: any of it here would have the Secret not count.
		config["etcd-s3"], config["etcd-s3-config-secret"] = true, snapshotbucket.SecretName
	}
}

// texts is a config value as a list of texts: a list, or one text.
func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []string:
		return v
	case []any:
		list := make([]string, 0, len(v))
		for _, item := range v {
			list = append(list, fmt.Sprint(item))
		}
		return list
	}
	return nil
}

func unique(list []string) []string {
	var out []string
	for _, item := range list {
		if item != "" && !slices.Contains(out, item) {
			out = append(out, item)
		}
	}
	return out
}

// Package render makes the plan of a machine: the files and the instruction that bring a
// host to what its cluster wants. It is a function of its input, and its bytes never change for an
// unchanged input and version, so that a newer server restarts nothing.
package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/drover-project/drover/installers/k3s"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/versions"
	"gopkg.in/yaml.v3"
)

// Newest is the newest version of the rendering. A cluster keeps the one it was
// made with until its owner changes its spec.
const Newest = 1

// Input is all that a plan is made of.
type Input struct {
	Cluster records.Cluster
	Machine *records.Machine
	// Secrets are the cluster's join tokens.
	Secrets *records.ClusterSecrets
	// Release is what is known of the wanted version.
	Release *versions.Release
	// InstallerImage is the prefix of installer images; empty means the default.
	InstallerImage string
}

// Plan makes the whole plan of a machine by a version of the rendering.
func Plan(in Input, version int) (plans.Plan, error) {
	if version < 1 || version > Newest {
		return plans.Plan{}, fmt.Errorf("cluster %s is rendered by version %d, which this server does not know; use a newer drover", in.Cluster.Name, version)
	}
	if in.Cluster.Spec.RKEConfig == nil {
		return plans.Plan{}, fmt.Errorf("cluster %s has no rkeConfig", in.Cluster.Name)
	}
	r := render{Input: in, rke: *in.Cluster.Spec.RKEConfig, dataDir: k3s.DefaultDataDir}
	if d := r.rke.DataDirectories; d != nil && d.K8sDistro != "" {
		r.dataDir = d.K8sDistro
	}
	return r.plan(version)
}

type render struct {
	Input
	rke     clusterspec.RKEConfig
	dataDir string
}

func (r render) server() bool { return r.Machine.Roles.Etcd || r.Machine.Roles.ControlPlane }

func (r render) plan(version int) (plans.Plan, error) {
	config, err := r.config()
	if err != nil {
		return plans.Plan{}, err
	}
	registries, err := r.registries()
	if err != nil {
		return plans.Plan{}, err
	}
	files := []plans.File{}
	if len(registries) > 0 {
		files = append(files, plans.File{Path: k3s.AgentRegistries, Content: plans.EncodeContent(registries), Dynamic: true})
	}
	files = append(files, r.registryCAs()...)
	files = append(files, plans.File{Path: k3s.RegistriesFile, Content: plans.EncodeContent(registries)})
	text, err := indented(config)
	if err != nil {
		return plans.Plan{}, fmt.Errorf("render the config of %s: %w", r.Machine.Name, err)
	}
	files = append(files, plans.File{Path: k3s.ConfigFile, Content: plans.EncodeContent(text)})
	if r.Machine.Roles.ControlPlane {
		files = append(files, plans.File{Path: path.Join(k3s.ManifestDir(r.dataDir), "addons.yaml"), Content: plans.EncodeContent([]byte(r.rke.AdditionalManifest)), Dynamic: true})
	}
	if r.server() {
		charts, err := r.charts()
		if err != nil {
			return plans.Plan{}, err
		}
		files = append(files, plans.File{Path: path.Join(k3s.ManifestDir(r.dataDir), "managed-chart-config.yaml"), Content: plans.EncodeContent(charts), Dynamic: true})
	}
	image := k3s.InstallerImage(r.InstallerImage, r.Cluster.Spec.KubernetesVersion)
	return plans.Plan{
		Files: files,
		Instructions: []plans.OneTimeInstruction{k3s.Install(image,
			r.stamp(version, r.restarts(), config, files, restartKeys),
			r.stamp(version, restarts{}, config, files, drainKeys),
			r.dataDir, r.server(), r.environment())},
		Probes: k3s.Probes(k3s.Node{
			Etcd: r.Machine.Roles.Etcd, ControlPlane: r.Machine.Roles.ControlPlane, Worker: r.Machine.Roles.Worker,
			Loopback: r.loopback(), DataDir: r.dataDir,
			ControllerManagerArgs: texts(config[k3s.ControllerManager.ArgKey]), SchedulerArgs: texts(config[k3s.Scheduler.ArgKey]),
		}),
	}, nil
}

// config are the keys of 50-rancher.yaml.
func (r render) config() (map[string]any, error) {
	config := r.userConfig()
	roles := r.Machine.Roles
	if r.rke.DataDirectories != nil && r.rke.DataDirectories.K8sDistro != "" {
		config["data-dir"] = r.dataDir
	}
	config["private-registry"] = k3s.RegistriesFile
	if r.Machine.NodeName != "" {
		config["node-name"] = r.Machine.NodeName
	}
	if r.server() {
		config["token"] = r.Secrets.ServerToken
		config["agent-token"] = r.Secrets.AgentToken
	} else {
		config["token"] = r.Secrets.AgentToken
	}
	if roles.Etcd {
		config["cluster-init"] = true
		r.snapshots(config)
	}
	if roles.ControlPlane {
		for _, c := range []k3s.Component{k3s.ControllerManager, k3s.Scheduler} {
			config[c.ArgKey] = c.Args(texts(config[c.ArgKey]), r.dataDir)
		}
	}
	r.addresses(config)
	config["node-label"] = r.nodeLabels()
	if taints := r.nodeTaints(); len(taints) > 0 {
		config["node-taint"] = taints
	}
	return config, nil
}

// userConfig merges the global config and each matching selector's, key by key, last writer wins,
// and leaves out what is only for servers on a machine that is none.
func (r render) userConfig() map[string]any {
	config := map[string]any{}
	merge := func(from map[string]any) {
		for key, value := range from {
			_, forServers := r.Release.ServerArgs[key]
			_, forAll := r.Release.AgentArgs[key]
			if key == clusterspec.AllowUnknownArgs || clusterspec.IsEmpty(value) || (forServers && !forAll && !r.server()) {
				continue
			}
			config[key] = value
		}
	}
	merge(r.rke.MachineGlobalConfig)
	for _, s := range r.rke.MachineSelectorConfig {
		if s.MachineLabelSelector.Matches(r.Machine.Labels) {
			merge(s.Config)
		}
	}
	return config
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
}

// addresses are those the host gave at registration. External ones are set only beside internal
// ones, since a lone external address would make the runtime choose its own internal one.
func (r render) addresses(config map[string]any) {
	internal := unique(r.Machine.InternalAddress)
	var external []string
	for _, a := range unique(r.Machine.Address) {
		if !slices.Contains(internal, a) {
			external = append(external, a)
		}
	}
	if len(internal) == 0 {
		return
	}
	config["node-ip"] = internal
	if _, cloud := config["cloud-provider-name"]; cloud || len(external) == 0 {
		return
	}
	config["node-external-ip"] = external
	if r.server() {
		config["advertise-address"] = internal[0]
		config["tls-san"] = unique(append(texts(config["tls-san"]), external...))
	}
}

func (r render) nodeLabels() []string {
	labels := []string{"rke.cattle.io/machine=" + r.Machine.UID}
	for key, value := range r.Machine.NodeLabels {
		labels = append(labels, key+"="+value)
	}
	slices.Sort(labels)
	return labels
}

func (r render) nodeTaints() []string {
	taints := r.Machine.NodeTaints
	if !r.Machine.Roles.Worker {
		// k3s lets a node that is both keep its one taint, that of the control plane.
		if r.Machine.Roles.Etcd && !r.Machine.Roles.ControlPlane {
			taints = append(slices.Clone(taints), records.Taint{Key: "node-role.kubernetes.io/etcd", Effect: "NoExecute"})
		}
		if r.Machine.Roles.ControlPlane {
			taints = append(slices.Clone(taints), records.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: "NoSchedule"})
		}
	}
	var list []string
	for _, t := range taints {
		text := t.Key
		if t.Value != "" {
			text += "=" + t.Value
		}
		list = append(list, text+":"+t.Effect)
	}
	slices.Sort(list)
	return list
}

func (r render) environment() []string {
	var env []string
	for _, v := range r.Cluster.Spec.AgentEnvVars {
		if v.Value != "" {
			env = append(env, v.Name+"="+v.Value)
		}
	}
	return env
}

// loopback is the host of probes by the address families of the cluster.
func (r render) loopback() string {
	if n := r.rke.Networking; n != nil {
		switch n.StackPreference {
		case "ipv4":
			return "127.0.0.1"
		case "ipv6":
			return "::1"
		}
	}
	return "localhost"
}

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

// charts is a stream of HelmChartConfigs, one a chart, sorted by name.
func (r render) charts() ([]byte, error) {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.rke.ChartValues)) {
		values := map[string]any{}
		if given, ok := r.rke.ChartValues[name].(map[string]any); ok {
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

// Keys that a stamp leaves out. A node applies labels and taints only when it joins, so a
// change of them must not restart it; where a node joined matters only the first time.
var (
	restartKeys = []string{"node-label", "node-taint", "server"}
	drainKeys   = []string{"node-label", "node-taint", "server", "cluster-init"}
)

// restarts are reasons to restart that are not in what is rendered.
type restarts struct {
	// Machine is the one whose label the node has to take; empty for all others.
	Machine string `json:"machine,omitempty"`
	// Restarts is that of the machine's status.
	Restarts int `json:"restarts,omitempty"`
}

func (r render) restarts() restarts {
	why := restarts{Restarts: r.Machine.Status.Restarts}
	if r.Machine.Status.Relabelled {
		why.Machine = r.Machine.UID
	}
	return why
}

// stamp is the hash that makes a node restart when it changes. Its input is a document of
// values, not rendered bytes, so that a new layout of a file is no reason to restart; and it has
// the version in it instead of the image, so that another registry is none either.
func (r render) stamp(version int, why restarts, config map[string]any, files []plans.File, leaveOut []string) string {
	input := struct {
		Renderer   int    `json:"renderer"`
		Generation int    `json:"provisionGeneration"`
		Version    string `json:"kubernetesVersion"`
		restarts
		Config map[string]any    `json:"config"`
		Files  map[string]string `json:"files"`
	}{Renderer: version, Generation: r.rke.ProvisionGeneration, Version: r.Cluster.Spec.KubernetesVersion, restarts: why, Config: maps.Clone(config), Files: map[string]string{}}
	for _, key := range leaveOut {
		delete(input.Config, key)
	}
	for _, f := range files {
		if !f.Dynamic && f.Path != k3s.ConfigFile {
			input.Files[f.Path] = f.Content
		}
	}
	b, err := json.Marshal(input)
	if err != nil {
		// The same values were rendered to JSON a moment ago.
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func indented(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	return append(b, '\n'), err
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

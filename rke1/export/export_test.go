package export_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/diff"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/export"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/pki/pkitest"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/rke1/versions"
)

var update = flag.Bool("update", false, "write the golden files")

var birth = time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC)

func data(t *testing.T) *versions.Data {
	t.Helper()
	d, err := versions.Load(t.Context(), "", versions.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func options(t *testing.T) export.Options {
	return export.Options{Versions: data(t), Source: pkitest.Source(birth.Add(time.Hour), 3)}
}

const clusterText = `
cluster_name: prod
kubernetes_version: v1.30.5-rancher1-1
nodes:
- {address: 203.0.113.10, internal_address: 10.0.0.10, hostname_override: n1, user: core, role: [controlplane, etcd]}
- {address: 203.0.113.12, internal_address: 10.0.0.12, hostname_override: n3, user: core, role: [controlplane]}
- {address: 203.0.113.11, internal_address: 10.0.0.11, hostname_override: n2, user: core, role: [worker], labels: {zone: rack.7}}
private_registries:
- {url: registry.example.com/base, user: puller, password: hunter2, is_default: true}
authentication: {strategy: "x509|webhook", sans: [k8s.example.com, 198.51.100.7]}
services:
  etcd: {snapshot: false, backup_config: {enabled: true, s3backupconfig: {endpoint: s3.example.com, bucket_name: b, access_key: k, secret_key: hunter3}}}
  kube-api: {secrets_encryption_config: {enabled: true}, event_rate_limit: {enabled: true}}
  kubelet: {extra_args: {max-pods: "200"}, extra_binds: ["/data:/data"], generate_serving_certificate: true}
upgrade_strategy: {drain: true}
ingress: {default_backend: false, extra_envs: [{name: A, value: "1"}], options: {use-forwarded-headers: "true"}}
addons: |
  apiVersion: v1
  kind: Namespace
  metadata: {name: shop}
`

// deployed is a cluster after its first run. Nothing of it is shared.
func deployed(t *testing.T, text string) *state.State {
	t.Helper()
	encoded, err := deployments(text)
	if err != nil {
		t.Fatal(err)
	}
	s, err := state.Decode(encoded)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// deployments keeps what was made already: signing takes most of the time of these tests.
var deployments = func() func(string) ([]byte, error) {
	kept := map[string][]byte{}
	return func(text string) ([]byte, error) {
		if kept[text] != nil {
			return kept[text], nil
		}
		file, err := config.Parse(strictyaml.Source{File: "cluster.yml"}, []byte(text))
		if err != nil {
			return nil, err
		}
		d, err := versions.Load(context.Background(), "", versions.Options{})
		if err != nil {
			return nil, err
		}
		c := config.WithDefaults(file.Cluster, config.Versions{Default: d.Default(), Images: d.Images})
		s, _, err := run.Init(run.Work{Config: &c, Kubeconfig: "/home/me/kube_config_prod.yml"}, pkitest.Source(birth, 0))
		if err != nil {
			return nil, err
		}
		kept[text], err = state.Encode(s.Deployed())
		return kept[text], err
	}
}()

// podsNote is of every export with the embedded data, which have no texts of the rke CLI.
const podsNote = "the first `rke up` replaces the pods of the add-ons rke-network-plugin, rke-coredns-addon, rke-metrics-addon, rke-ingress-controller on all nodes"

func but(all []string, without string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(text string) bool { return strings.HasPrefix(text, without) })
}

func made(t *testing.T, s *state.State, o export.Options) *export.Export {
	t.Helper()
	e, err := export.Make(s, o, birth)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func content(t *testing.T, files []export.File, name string) []byte {
	t.Helper()
	for _, f := range files {
		if f.Name == name {
			return f.Content
		}
	}
	t.Fatalf("there is no file %s", name)
	return nil
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if changes := cmp.Diff(string(want), string(got)); changes != "" {
		t.Errorf("%s: %s", path, changes)
	}
}

func TestFiles(t *testing.T) {
	s := deployed(t, clusterText)
	e := made(t, s, options(t))
	var names []string
	for _, f := range e.Files {
		names = append(names, f.Name)
	}
	want := []string{"cluster.yml", "cluster.rkestate", "kube_config_cluster.yml", "README", "SHA256SUMS"}
	if changes := cmp.Diff(want, names); changes != "" {
		t.Error(changes)
	}
	golden(t, "cluster.yml", content(t, e.Files, export.ConfigFile))
	golden(t, "README", content(t, e.Files, export.ReadmeFile))
	if notes := but(e.Notes, podsNote); len(notes) > 0 || len(e.Notes) != 1 {
		t.Errorf("notes about a cluster of which only add-ons are to be said: %q", e.Notes)
	}
	for _, secret := range []string{"hunter2", "hunter3", "BEGIN"} {
		if strings.Contains(string(content(t, e.Files, export.ReadmeFile)), secret) {
			t.Errorf("the README has %q in it", secret)
		}
	}
	again := made(t, s, options(t))
	if changes := cmp.Diff(e.Files, again.Files); changes != "" {
		t.Errorf("a second export differs: %s", changes)
	}
}

// TestLoadsAgain takes the cluster over with the files: no certificate changes, and no container of a host on
// which everything runs as it did.
func TestLoadsAgain(t *testing.T) {
	for name, text := range map[string]string{
		"full": clusterText,
		"minimal": `
kubernetes_version: v1.23.17-rancher1-1
nodes: [{address: 10.0.0.1, user: core, role: [controlplane, etcd, worker]}]`,
	} {
		t.Run(name, func(t *testing.T) {
			s := deployed(t, text)
			before := plan(t, s.Current.Config, s.Current.Encryption)
			dir := filepath.Join(t.TempDir(), "export")
			if err := export.Save(dir, made(t, s, options(t)).Files); err != nil {
				t.Fatal(err)
			}
			d := data(t)
			known := config.Versions{Default: d.Default(), Images: d.Images}
			written, err := os.ReadFile(filepath.Join(dir, export.ConfigFile))
			if err != nil {
				t.Fatal(err)
			}
			file, err := config.Parse(strictyaml.Source{File: export.ConfigFile}, written)
			if err != nil {
				t.Fatal(err)
			}
			c := config.WithDefaults(file.Cluster, known)
			files := state.FilesOf(filepath.Join(dir, export.ConfigFile))
			loaded, unknown, err := state.Load(files, state.Against{Config: &c})
			if err != nil || len(unknown) > 0 {
				t.Fatalf("load: %v, unknown %v", err, unknown)
			}
			next, _, err := run.Init(run.Work{Config: &c, Before: loaded, Kubeconfig: "./kube_config_cluster.yml"}, pkitest.Source(birth.Add(time.Hour), 5))
			if err != nil {
				t.Fatal(err)
			}
			changed, err := state.Diff(loaded, next)
			if err != nil {
				t.Fatal(err)
			}
			admin := "desiredState.certificatesBundle.kube-admin."
			if changes := cmp.Diff([]string{admin + "certificatePEM", admin + "config"}, changed); changes != "" {
				t.Errorf("what a first run changes: %s", changes)
			}
			for address, host := range plan(t, &c, next.Desired.Encryption) {
				if differences := diff.Of(host, running(before[address])); len(differences) > 0 {
					t.Errorf("host %s would be changed: %v", address, differences)
				}
				if changes := cmp.Diff(before[address].Files, host.Files); changes != "" {
					t.Errorf("files of host %s: %s", address, changes)
				}
			}
		})
	}
}

// TestCustomEncryptionInBothForms: the command line writes apiVersion and kind, and those of custom_config as well. The config that is
// exported is the one from which it writes the text that the API servers have.
func TestCustomEncryptionInBothForms(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n"
	text := strings.Replace(clusterText, "secrets_encryption_config: {enabled: true}", "secrets_encryption_config: {enabled: true, custom_config: "+
		"{kind: EncryptionConfiguration, apiVersion: apiserver.config.k8s.io/v1, resources: [{resources: [secrets], providers: [{aesgcm: {keys: [{name: g, secret: c2VjcmV0}]}}]}]}}", 1)
	for _, own := range []bool{true, false} {
		s := deployed(t, text)
		if !own {
			s.Desired.Encryption, s.Current.Encryption = head+s.Desired.Encryption, head+s.Current.Encryption
		}
		e := made(t, s, options(t))
		exported, err := state.Decode(content(t, e.Files, export.StateFile))
		if err != nil {
			t.Fatal(err)
		}
		file, err := config.Parse(strictyaml.Source{File: export.ConfigFile}, content(t, e.Files, export.ConfigFile))
		if err != nil {
			t.Fatal(err)
		}
		custom := file.Cluster.Services.KubeAPI.SecretsEncryptionConfig.CustomConfig
		if named := custom.Kind != "" && custom.APIVersion != ""; named == own || exported.Desired.Encryption != s.Desired.Encryption {
			t.Errorf("of drover's own form %v: kind %q, apiVersion %q with\n%s", own, custom.Kind, custom.APIVersion, exported.Desired.Encryption)
		}
		known := config.Versions{Default: data(t).Default(), Images: data(t).Images}
		if changed, err := export.Elsewhere(s, exported, known); err != nil || len(changed) > 0 {
			t.Errorf("an export changes %q, %v", changed, err)
		}
	}
}

// TestReleasesOfTheCommandLine: the lines before 1.5 make every API server anew, and the version data name them for old versions.
func TestReleasesOfTheCommandLine(t *testing.T) {
	for _, c := range []struct{ version, more, want string }{
		{"v1.23.17-rancher1-1", "", "Use rke 1.5.0 or later; 1.7 is the last line. It leaves the containers of the cluster as they are. Earlier lines make every kube-apiserver anew. " +
			"`rke config --list-version --all` lists this version in releases up to 1.4 alone; later ones take it all the same."},
		{"v1.31.4-rancher1-1", "", " or later; 1.7 is the last line. It leaves the containers of the cluster as they are."},
		{"v1.24.17-rancher1-1", "services: {kube-api: {pod_security_policy: true}}", "Use the last rke of the line 1.4: later ones take the admission plugin PodSecurityPolicy"},
		{"v1.30.5-rancher1-1", "dns: {reversecidrs: [10.0.0.0/8]}", "The configuration of DNS changes"},
		{"v1.30.5-rancher1-1", "services: {kube-api: {admission_configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: AdmissionConfiguration, " +
			"plugins: [{name: ImagePolicyWebhook, path: /etc/kubernetes/image.yaml}]}}}", "Every kube-apiserver may be made anew"},
	} {
		s := deployed(t, "kubernetes_version: "+c.version+"\nnodes: [{address: 10.0.0.1, user: core, role: [controlplane, etcd, worker]}]\n"+c.more)
		text := strings.Join(strings.Fields(string(content(t, made(t, s, options(t)).Files, export.ReadmeFile))), " ")
		if !strings.Contains(text, c.want) {
			t.Errorf("%s %s lacks %q:\n%s", c.version, c.more, c.want, text)
		}
	}
}

// TestAnAuditLogThatIsOff is exported without its configuration: the rke CLI would give the API server the flags without the file.
func TestAnAuditLogThatIsOff(t *testing.T) {
	s := deployed(t, strings.Replace(clusterText, "kube-api: {", "kube-api: {audit_log: {enabled: false, configuration: {max_age: 3, path: /var/log/a.json, format: json}}, ", 1))
	if a := s.Desired.Config.Services.KubeAPI.AuditLog; a.Configuration == nil {
		t.Fatal("the cluster has no configuration")
	}
	file, err := config.Parse(strictyaml.Source{File: export.ConfigFile}, content(t, made(t, s, options(t)).Files, export.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	if a := file.Cluster.Services.KubeAPI.AuditLog; a == nil || a.Enabled || a.Configuration != nil {
		t.Errorf("exported with %+v", a)
	}
}

// plan is what should be on each host.
func plan(t *testing.T, c *config.Cluster, encryption string) map[string]desired.Host {
	t.Helper()
	in := desired.Input{Config: c, Versions: data(t), Hosts: map[string]desired.Facts{}, Encryption: encryption}
	for _, n := range c.Nodes {
		in.Hosts[n.Address] = desired.Facts{OSType: "linux", Architecture: "x86_64", DockerRootDir: "/var/lib/docker", ServerVersion: "20.10.24"}
	}
	hosts, err := desired.Cluster(in)
	if err != nil {
		t.Fatal(err)
	}
	return hosts
}

// running is a host on which everything runs as it should, the way Docker shows it.
func running(h desired.Host) diff.Found {
	found := diff.Found{Images: map[string]nodeconfig.Base{}, EtcdData: true}
	for _, c := range h.Containers {
		found.Images[c.Image] = nodeconfig.Base{}
		found.Containers = append(found.Containers, nodeconfig.Container{
			ID: "id-" + c.Name, Name: c.Name, Image: c.Image, Entrypoint: c.Command, Cmd: c.Args, Env: c.Env, Binds: c.Binds, Labels: c.Labels,
			VolumesFrom: c.VolumesFrom, SecurityOpt: c.SecurityOpt, NetworkMode: c.NetworkMode, PidMode: c.PidMode, Privileged: c.Privileged,
			User: c.User, Running: c.Name != desired.Sidekick,
		})
	}
	return found
}

func TestSSH(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*export.Options, *state.State)
		want   func(*config.Cluster)
		note   string
	}{
		{name: "stays as it is"},
		{
			name:   "given",
			change: func(o *export.Options, _ *state.State) { o.SSH = export.SSH{User: "me", KeyPath: "~/k"} },
			want: func(c *config.Cluster) {
				c.SSHKeyPath = "~/k"
				for i := range c.Nodes {
					c.Nodes[i].User, c.Nodes[i].SSHKeyPath = "me", "~/k"
				}
			},
		},
		{
			name: "a key instead of an agent",
			change: func(o *export.Options, s *state.State) {
				for _, p := range []*config.Cluster{s.Desired.Config, s.Current.Config} {
					p.SSHAgentAuth = true
				}
				o.SSH.KeyPath = "~/k"
			},
			want: func(c *config.Cluster) {
				c.SSHKeyPath = "~/k"
				for i := range c.Nodes {
					c.Nodes[i].SSHKeyPath = "~/k"
				}
			},
		},
		{
			name:   "nobody has tried",
			change: func(o *export.Options, _ *state.State) { o.OverTunnel = true },
			want: func(c *config.Cluster) {
				c.SSHKeyPath = "CHANGE-ME"
				for i := range c.Nodes {
					c.Nodes[i].User, c.Nodes[i].SSHKeyPath = "CHANGE-ME", "CHANGE-ME"
				}
			},
			note: "fill in what is CHANGE-ME in cluster.yml: ssh_key_path, nodes[0].user, nodes[0].ssh_key_path",
		},
		{
			name: "a bastion",
			change: func(o *export.Options, _ *state.State) {
				o.SSH.Bastion = config.BastionHost{Address: "198.51.100.1", User: "jump"}
			},
			want: func(c *config.Cluster) {
				c.BastionHost = config.BastionHost{Address: "198.51.100.1", User: "jump", Port: "22", SSHKeyPath: "~/.ssh/id_rsa"}
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, o := deployed(t, clusterText), options(t)
			want := *deployed(t, clusterText).Desired.Config
			if c.change != nil {
				c.change(&o, s)
			}
			if c.want != nil {
				c.want(&want)
			}
			e := made(t, s, o)
			exported, err := state.Decode(content(t, e.Files, export.StateFile))
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range []state.Part{exported.Desired, exported.Current} {
				if changes := cmp.Diff(&want, part.Config); changes != "" {
					t.Error(changes)
				}
			}
			if c.note != "" && !slices.ContainsFunc(e.Notes, func(n string) bool { return strings.HasPrefix(n, c.note) }) {
				t.Errorf("notes %q lack %q", e.Notes, c.note)
			}
			if strings.Contains(string(content(t, e.Files, export.ReadmeFile)), "Replace each CHANGE-ME") != o.OverTunnel {
				t.Error("the README does not say what has to be filled in, or says it in vain")
			}
		})
	}
}

// TestWorkersOfOtherEngines: a state that does not say that workers were deployed is completed.
func TestWorkersOfOtherEngines(t *testing.T) {
	s := deployed(t, clusterText)
	s.Current.Config.Nodes = slices.DeleteFunc(s.Current.Config.Nodes, func(n config.Node) bool { return n.Has(config.RoleWorker) })
	for _, p := range []*config.Cluster{s.Desired.Config, s.Current.Config} {
		p.Nodes[0].NodeName = "c-abcde:m-12345"
	}
	e := made(t, s, options(t))
	exported, err := state.Decode(content(t, e.Files, export.StateFile))
	if err != nil {
		t.Fatal(err)
	}
	if changes := cmp.Diff(exported.Desired, exported.Current); changes != "" {
		t.Error(changes)
	}
	if len(exported.Current.Config.Nodes) != 3 || exported.Current.Config.Nodes[0].NodeName != "" {
		t.Errorf("nodes of currentState: %v", exported.Current.Config.Nodes)
	}
	if notes := but(e.Notes, podsNote); len(notes) != 1 || !strings.Contains(notes[0], "203.0.113.11") {
		t.Errorf("notes %q do not name the worker", e.Notes)
	}
}

// byRKE is a state as the rke CLI leaves it after a run that came to its end.
func byRKE(t *testing.T, text string) *state.State {
	s := deployed(t, text)
	s.Desired.Config.UpgradeStrategy.DrainInput = nil
	yes := true
	s.Desired.Config.IgnoreDockerVersion, s.Current.Config.IgnoreDockerVersion = &yes, &yes
	rotated := &config.RotateCertificates{Services: []string{"kubelet"}}
	s.Desired.Config.RotateCertificates, s.Current.Config.RotateCertificates = rotated, rotated
	s.Desired.Config.RotateEncryptionKey = true
	current := &s.Current.Config.Services
	const cloud = "RKE_CLOUD_CONFIG_CHECKSUM=0cc175b9c0f1b6a831c399e269772661"
	current.KubeController.ExtraEnv = append(current.KubeController.ExtraEnv, cloud, cloud)
	current.KubeAPI.ExtraEnv = append(current.KubeAPI.ExtraEnv, "RKE_AUDITLOG_CONFIG_CHECKSUM=92eb5ffee6ae2fec3ad71c777531578f", cloud)
	s.Desired.Config.SystemImages.ACIGBPServerContainer, s.Current.Config.SystemImages.ACIGBPServerContainer = "registry.example.com/base/", "registry.example.com/base/"
	return s
}

func TestWhatTheCommandLineLeavesIsNoInterruption(t *testing.T) {
	text := strings.Replace(clusterText, "upgrade_strategy: {drain: true}\n", "", 1)
	text = strings.Replace(text, "  kubelet: {", "  kube-controller: {extra_env: [\"MINE=1\"]}\n  kubelet: {", 1)
	file, err := config.Parse(strictyaml.Source{File: "cluster.yml"}, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	known := config.Versions{Default: data(t).Default(), Images: data(t).Images}
	c := config.WithDefaults(file.Cluster, known)
	s := byRKE(t, text)
	remarks, err := export.Examine(&c, s, known, birth)
	if err != nil || len(remarks) > 0 {
		t.Errorf("an import says %q, %v", remarks, err)
	}
	if changed, err := export.Elsewhere(deployed(t, text), s, known); err != nil || len(changed) > 0 {
		t.Errorf("another run has changed %q, %v", changed, err)
	}
	e := made(t, s, options(t))
	exported, err := state.Decode(content(t, e.Files, export.StateFile))
	if err != nil {
		t.Fatal(err)
	}
	if env := exported.Current.Config.Services.KubeController.ExtraEnv; !slices.Equal(env, []string{"MINE=1"}) {
		t.Errorf("extra_env of the controller manager is exported as %q", env)
	}
	s.Current.Config.Services.KubeController.ExtraEnv[0] = "MINE=2"
	remarks, err = export.Examine(&c, s, known, birth)
	if err != nil || len(remarks) != 1 || !strings.Contains(remarks[0], "rkeConfig.services.kubeController.extraEnv[0]") {
		t.Errorf("an interrupted run: %q, %v", remarks, err)
	}
}

func TestInterruptedRun(t *testing.T) {
	s := deployed(t, clusterText)
	s.Desired.Config.Services.Kubelet.ExtraArgs["max-pods"] = "300"
	_, err := export.Make(s, options(t), birth)
	var unfinished *export.UnfinishedError
	if !errors.As(err, &unfinished) {
		t.Fatalf("got %v", err)
	}
	if changes := cmp.Diff([]string{"rkeConfig.services.kubelet.extraArgs.max-pods"}, unfinished.Differences); changes != "" {
		t.Error(changes)
	}
	o := options(t)
	o.Unfinished = true
	e := made(t, s, o)
	exported, err := state.Decode(content(t, e.Files, export.StateFile))
	if err != nil {
		t.Fatal(err)
	}
	if is, was := exported.Desired.Config.Services.Kubelet.ExtraArgs["max-pods"], exported.Current.Config.Services.Kubelet.ExtraArgs["max-pods"]; is != "300" || was != "200" {
		t.Errorf("desired %s, current %s", is, was)
	}
	if text := string(content(t, e.Files, export.ReadmeFile)); !strings.Contains(text, "rkeConfig.services.kubelet.extraArgs.max-pods") {
		t.Error("the README does not say that a run was interrupted")
	}
	if notes := but(e.Notes, podsNote); len(notes) != 1 || !strings.Contains(notes[0], "interrupted") {
		t.Errorf("notes: %q", e.Notes)
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*state.State)
		want   string
	}{
		{"never deployed", func(s *state.State) { s.Current = state.Part{} }, "nothing of the cluster was deployed yet"},
		{"no key of the CA", func(s *state.State) {
			for _, b := range []pki.Bundle{s.Desired.Certificates, s.Current.Certificates} {
				ca := b[pki.CA]
				ca.KeyPEM = ""
				b[pki.CA] = ca
			}
		}, "kube-ca: has no key"},
		{"no encryption config", func(s *state.State) { s.Desired.Encryption, s.Current.Encryption = "", "" }, "encryptionConfig: is missing"},
		{"control planes in another order than the certificates", func(s *state.State) {
			for _, c := range []*config.Cluster{s.Desired.Config, s.Current.Config} {
				c.Nodes[0], c.Nodes[1] = c.Nodes[1], c.Nodes[0]
			}
		}, "desiredState.certificatesBundle.kube-apiserver.certificatePEM"},
		{"a service account without a certificate", func(s *state.State) {
			for _, b := range []pki.Bundle{s.Desired.Certificates, s.Current.Certificates} {
				c := b[pki.ServiceAccount]
				c.CertificatePEM = ""
				b[pki.ServiceAccount] = c
			}
		}, "kube-service-account-token: lacks certificatePEM"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := deployed(t, clusterText)
			c.change(s)
			e, err := export.Make(s, options(t), birth)
			if e != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err != nil && (strings.Contains(err.Error(), "hunter") || strings.Contains(err.Error(), "BEGIN")) {
				t.Errorf("the error has secrets in it: %v", err)
			}
		})
	}
}

func TestSoonExpired(t *testing.T) {
	// A name that ends its place in the kubeconfig and goes on.
	named := deployed(t, clusterText)
	for _, c := range []*config.Cluster{named.Desired.Config, named.Current.Config} {
		c.ClusterName = "a\"\nusers: [{name: b, user: {exec: {command: hunter2}}}]\n#"
	}
	if _, err := export.Make(named, options(t), birth); err == nil || !strings.Contains(err.Error(), "make kube_config_cluster.yml of the state") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a program to run: %v", err)
	}
	e, err := export.Make(deployed(t, clusterText), options(t), birth.AddDate(10, 0, -30))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(e.Notes, func(n string) bool { return strings.HasPrefix(n, "kube-ca ends") }) {
		t.Errorf("notes %q do not warn of the end of certificates", e.Notes)
	}
}

func TestLint(t *testing.T) {
	replace := func(old, now string) func([]byte) []byte {
		return func(b []byte) []byte {
			if !bytes.Contains(b, []byte(old)) {
				t.Fatalf("there is no %q to break", old)
			}
			return bytes.Replace(b, []byte(old), []byte(now), 1)
		}
	}
	changeState := func(change func(*state.State)) func([]byte) []byte {
		return func(b []byte) []byte {
			s, err := state.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			change(s)
			if b, err = state.Encode(s); err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	good := made(t, deployed(t, clusterText), options(t)).Files
	for _, c := range []struct {
		name, file string
		change     func([]byte) []byte
		want       string
	}{
		{"one byte less", export.StateFile, func(b []byte) []byte { return b[:len(b)-1] }, "it is cut off or damaged"},
		{"a file without anything", export.KubeconfigFile, func([]byte) []byte { return nil }, "kube_config_cluster.yml: is missing"},
		{"a worker that was not deployed", export.StateFile, changeState(func(s *state.State) {
			s.Current.Config.Nodes = s.Current.Config.Nodes[:2]
		}), "currentState.rkeConfig.nodes: lack the worker 203.0.113.11"},
		{"an entry with PEM alone", export.StateFile, changeState(func(s *state.State) {
			c := s.Desired.Certificates[pki.Proxy]
			s.Desired.Certificates[pki.Proxy] = pki.Certificate{CertificatePEM: c.CertificatePEM, KeyPEM: c.KeyPEM}
		}), "desiredState.certificatesBundle.kube-proxy: lacks name, commonName, envName, path, keyEnvName, keyPath, config, configEnvName, configPath"},
		{"an entry with a field less", export.StateFile, replace(`"ouName": "system:nodes",`, ""), "certificatesBundle.kube-node: lacks ouName"},
		{"no request header CA", export.StateFile, changeState(func(s *state.State) {
			delete(s.Desired.Certificates, pki.RequestHeaderCA)
		}), "desiredState.certificatesBundle.kube-apiserver-requestheader-ca: is missing"},
		{"no current state", export.StateFile, changeState(func(s *state.State) { s.Current = state.Part{} }), "take the cluster for a new one"},
		{"no encryption config", export.StateFile, changeState(func(s *state.State) { s.Desired.Encryption = "" }), "desiredState.encryptionConfig: is missing"},
		{"another order of nodes", export.ConfigFile, func(b []byte) []byte {
			return replace("address: 203.0.113.00", "address: 203.0.113.12")(replace("address: 203.0.113.12", "address: 203.0.113.10")(replace("address: 203.0.113.10", "address: 203.0.113.00")(b)))
		}, "a first run would change desiredState.certificatesBundle.kube-apiserver.certificatePEM"},
		{"another value", export.ConfigFile, replace("service_node_port_range: 30000-32767", "service_node_port_range: 30000-32000"), "cluster.yml: a first run would change desiredState.rkeConfig.services.kubeApi.serviceNodePortRange"},
		{"a key that nothing reads", export.ConfigFile, replace("service_node_port_range", "serviceNodePortRange"), "serviceNodePortRange"},
		{"a registry twice", export.ConfigFile, replace("registry.example.com/base/rancher", "registry.example.com/base/registry.example.com/base/rancher"), "twice"},
		{"a kubeconfig of something else", export.KubeconfigFile, replace("203.0.113.10", "203.0.113.12"), "is not the kubeconfig of kube-admin"},
		{"a changed byte", export.ReadmeFile, replace("etcd", "etcD"), "SHA256SUMS: are not the checksums"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := slices.Clone(good)
			for i, f := range files {
				if f.Name == c.file {
					files[i].Content = c.change(bytes.Clone(f.Content))
				}
			}
			findings := export.Lint(files, options(t))
			if !slices.ContainsFunc(findings, func(f export.Finding) bool { return strings.Contains(f.String(), c.want) }) {
				t.Errorf("findings %v lack %q", findings, c.want)
			}
			for _, f := range findings {
				if strings.Contains(f.String(), "hunter") || strings.Contains(f.String(), "BEGIN") {
					t.Errorf("a finding has a secret in it: %s", f)
				}
			}
		})
	}
}

package diff

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/versions"
)

// host is one with all roles, and SELinux when labeled.
func host(t *testing.T, labeled bool) desired.Host {
	t.Helper()
	data, err := versions.Load(t.Context(), "", versions.Options{})
	if err != nil {
		t.Fatal(err)
	}
	images, err := data.Images("v1.30.5-rancher1-1")
	if err != nil {
		t.Fatal(err)
	}
	facts := desired.Facts{OSType: "linux", Architecture: "x86_64", DockerRootDir: "/var/lib/docker"}
	if labeled {
		facts.SecurityOptions = []string{"name=selinux"}
	}
	all, err := desired.Cluster(desired.Input{
		Config: &config.Cluster{
			KubernetesVersion: "v1.30.5-rancher1-1", SystemImages: images, Authorization: config.Authorization{Mode: "rbac"},
			PrivateRegistries: []config.PrivateRegistry{{User: "u", Password: "hunter2"}},
			Nodes:             []config.Node{{Address: "10.0.0.1", HostnameOverride: "n1", Role: []string{config.RoleEtcd, config.RoleControlPlane, config.RoleWorker}}},
		},
		Versions: data,
		Hosts:    map[string]desired.Facts{"10.0.0.1": facts},
	})
	if err != nil {
		t.Fatal(err)
	}
	return all["10.0.0.1"]
}

var base = nodeconfig.Base{Entrypoint: []string{"/image/entry"}, Cmd: []string{"cmd"}, Env: []string{"PATH=/bin", "ETCDCTL_API=2"}}

// found is the host with everything as wanted, the way Docker shows it, with lists in any order.
func found(h desired.Host) Found {
	f := Found{Images: map[string]nodeconfig.Base{}, EtcdData: true}
	shuffled := func(list []string) []string {
		list = slices.Clone(list)
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		return list
	}
	for _, c := range h.Containers {
		f.Images[c.Image] = base
		is := nodeconfig.Container{
			ID: "id-" + c.Name, Name: c.Name, Image: c.Image, Entrypoint: shuffled(c.Command), Cmd: shuffled(c.Args), Binds: shuffled(c.Binds),
			SecurityOpt: shuffled(c.SecurityOpt), Labels: map[string]string{nodeconfig.Label: c.Name}, Running: c.Name != desired.Sidekick,
		}
		if len(c.Command) == 0 {
			is.Entrypoint = base.Entrypoint
		}
		if len(c.SecurityOpt) == 0 {
			is.SecurityOpt = []string{"label=disable"} // Docker's own
		}
		is.Env = shuffled(append([]string{"PATH=/bin"}, c.Env...))
		if c.Name != desired.Etcd {
			is.Env = append(is.Env, "ETCDCTL_API=2")
		}
		f.Containers = append(f.Containers, is)
	}
	slices.Reverse(f.Containers)
	return f
}

func lines(all []Difference) []string {
	out := []string{}
	for _, d := range all {
		out = append(out, d.String())
	}
	return out
}

func TestEqual(t *testing.T) {
	for _, labeled := range []bool{false, true} {
		h := host(t, labeled)
		for range 20 {
			if diff := cmp.Diff([]string{}, lines(Of(h, found(h)))); diff != "" {
				t.Fatalf("labeled %v:\n%s", labeled, diff)
			}
		}
	}
}

func TestNothingThere(t *testing.T) {
	h := host(t, false)
	want := []string{}
	for _, name := range []string{"etcd", "etcd-rolling-snapshots", "service-sidekick", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"} {
		want = append(want, "10.0.0.1 "+name+": create (it is not there)")
	}
	all := Of(h, Found{})
	if diff := cmp.Diff(want, lines(all)); diff != "" {
		t.Error(diff)
	}
	for _, d := range all {
		if a, ok := d.Action(); !ok || a.Process == nil || a.Process.Name != d.Container {
			t.Errorf("%s cannot be performed", d)
		}
	}
}

// of is a container of what is found.
func (f *Found) of(name string) *nodeconfig.Container {
	return &f.Containers[slices.IndexFunc(f.Containers, func(c nodeconfig.Container) bool { return c.Name == name })]
}

func replaced(list []string, old, now string) []string {
	list = slices.Clone(list)
	for i, word := range list {
		if strings.HasPrefix(word, old) {
			list[i] = now
		}
	}
	return list
}

func TestDifferences(t *testing.T) {
	h := host(t, true)
	for _, c := range []struct {
		what   string
		change func(*Found)
		want   []string
	}{
		{"a flag", func(f *Found) { c := f.of("kubelet"); c.Entrypoint = replaced(c.Entrypoint, "--v=", "--v=9") }, []string{"kubelet: replace (flag --v)"}},
		{"a flag more, one less", func(f *Found) {
			c := f.of("kubelet")
			c.Entrypoint = replaced(c.Entrypoint, "--v=", "--mine=secret")
		}, []string{"kubelet: replace (flag --mine, flag --v)"}},
		{"an argument", func(f *Found) { f.of("kube-controller-manager").Cmd = nil }, []string{"kube-controller-manager: replace (flag --use-service-account-credentials)"}},
		{"the command", func(f *Found) {
			c := f.of("kube-scheduler")
			c.Entrypoint = replaced(c.Entrypoint, "/opt/rke-tools/", "/mine.sh")
		}, []string{"kube-scheduler: replace (command)"}},
		{"the image's own command", func(f *Found) { f.of("etcd").Entrypoint = []string{"/other"} }, []string{"etcd: replace (command)"}},
		{"the image", func(f *Found) { f.of("kube-proxy").Image = "old:v1" }, []string{"kube-proxy: replace (image old:v1 → rancher/hyperkube:v1.30.5-rancher1)"}},
		{"an image that is not there", func(f *Found) { delete(f.Images, h.Containers[0].Image) }, []string{"etcd: replace (image rancher/mirrored-coreos-etcd:v3.5.12 is not on the host)"}},
		{"a bind", func(f *Found) { c := f.of("kube-proxy"); c.Binds = replaced(c.Binds, "/run:", "/x:/y") }, []string{"kube-proxy: replace (bind +/run:/run, bind -/x:/y)"}},
		{"a label of SELinux's", func(f *Found) { f.of("etcd").SecurityOpt = nil }, []string{"etcd: replace (security option +label=type:rke_container_t)"}},
		{"no labels at all", func(f *Found) { f.of("etcd").SecurityOpt = []string{"label=disable"} }, []string{"etcd: replace (security option +label=type:rke_container_t)"}},
		{"a variable", func(f *Found) {
			c := f.of("kubelet")
			c.Env = replaced(c.Env, "RKE_KUBELET_DOCKER_CONFIG", "RKE_KUBELET_DOCKER_CONFIG=hunter1")
		}, []string{"kubelet: replace (env RKE_KUBELET_DOCKER_CONFIG)"}},
		{"a variable that is not wanted", func(f *Found) { c := f.of("kubelet"); c.Env = append(c.Env, "CATTLE_ETCD_RESTORE_GENERATION=3") }, []string{"kubelet: replace (env CATTLE_ETCD_RESTORE_GENERATION)"}},
		{"an empty variable", func(f *Found) { c := f.of("kubelet"); c.Env = append(c.Env, "") }, []string{}},
		{"what nobody compares", func(f *Found) {
			c := f.of("kubelet")
			c.PidMode, c.NetworkMode, c.Privileged, c.User, c.VolumesFrom = "x", "y", !c.Privileged, "z", nil
		}, []string{}},
		{"what etcd was founded with", func(f *Found) {
			c := f.of("etcd")
			c.Cmd = replaced(replaced(c.Cmd, "--initial-cluster=", "--initial-cluster=other"), "--initial-cluster-state", "--initial-cluster-state=existing")
		}, []string{}},
		{"what etcd is to be founded with", func(f *Found) {
			c := f.of("etcd")
			c.Cmd, f.EtcdData = replaced(replaced(c.Cmd, "--initial-cluster=", "--initial-cluster=other"), "--initial-cluster-state", "--initial-cluster-state=existing"), false
		}, []string{"etcd: replace (flag --initial-cluster, flag --initial-cluster-state)"}},
		{"another flag of etcd", func(f *Found) {
			c := f.of("etcd")
			c.Cmd = replaced(c.Cmd, "--initial-cluster-token", "--initial-cluster-token=x")
		}, []string{"etcd: replace (flag --initial-cluster-token)"}},
		{"one that stands still", func(f *Found) { f.of("etcd").Running = false }, []string{"etcd: start (it does not run)"}},
		{"one that stands still and is old", func(f *Found) { c := f.of("etcd"); c.Running, c.Image = false, "old:v1" }, []string{"etcd: replace (image old:v1 → rancher/mirrored-coreos-etcd:v3.5.12)"}},
		{"one that starts again and again", func(f *Found) { f.of("kubelet").Restarting = true }, []string{"kubelet: restart (it starts again and again)"}},
		{"somebody else's", func(f *Found) { f.of("kubelet").Labels = nil }, []string{"kubelet: taken (a container that is not of this cluster has this name)"}},
		{"the peer's snapshots", func(f *Found) { f.of("etcd-rolling-snapshots").Labels = nil }, []string{}},
		{"no place any more", func(f *Found) {
			f.Containers = append(f.Containers, nodeconfig.Container{ID: "n", Name: "nginx-proxy", Running: true, Labels: map[string]string{nodeconfig.Label: "nginx-proxy"}},
				nodeconfig.Container{Name: "mine", Running: true})
		}, []string{"nginx-proxy: remove (it has no place on this host)"}},
		{"a new sidekick", func(f *Found) { f.of("service-sidekick").Image = "old:v1" }, []string{
			"service-sidekick: replace (image old:v1 → rancher/rke-tools:v0.1.103)", "kube-apiserver: replace (its volumes are of a new service-sidekick)",
			"kube-controller-manager: replace (its volumes are of a new service-sidekick)", "kube-scheduler: replace (its volumes are of a new service-sidekick)",
			"kubelet: replace (its volumes are of a new service-sidekick)", "kube-proxy: replace (its volumes are of a new service-sidekick)"}},
		{"an interrupted replacement", func(f *Found) { f.of("kubelet").Name = "old-kubelet" }, []string{"kubelet: create (it is not there)"}},
		{"a replacement interrupted at its end", func(f *Found) {
			c := *f.of("kubelet")
			c.Name, c.ID = "old-kubelet", "old"
			f.Containers = append(f.Containers, c)
		}, []string{"kubelet: discard (left by an interrupted replacement)"}},
		{"a replacement interrupted at its beginning", func(f *Found) {
			c := *f.of("kubelet")
			c.Name, c.ID = "new-kubelet", "new"
			f.Containers = append(f.Containers, c)
		}, []string{"kubelet: discard (left by an interrupted replacement)"}},
		{"somebody else's leftover", func(f *Found) {
			f.Containers = append(f.Containers, nodeconfig.Container{Name: "old-kubelet"}, nodeconfig.Container{Name: "new-kubelet"})
		}, []string{}},
	} {
		f := found(h)
		c.change(&f)
		got := lines(Of(h, f))
		for i := range c.want {
			c.want[i] = "10.0.0.1 " + c.want[i]
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.what, diff)
		}
		if text := strings.Join(got, "\n"); strings.Contains(text, "hunter") || strings.Contains(text, "secret") {
			t.Errorf("%s: a secret is shown: %s", c.what, text)
		}
	}
}

func TestActions(t *testing.T) {
	h := host(t, false)
	f := found(h)
	f.of("kubelet").Name = "old-kubelet"
	f.of("etcd").Image = "old:v1"
	f.Containers = append(f.Containers, nodeconfig.Container{ID: "n", Name: "nginx-proxy", Labels: map[string]string{nodeconfig.Label: "nginx-proxy"}})
	all := Of(h, f)
	if len(all) != 3 {
		t.Fatal(lines(all))
	}
	if _, ok := all[0].Action(); ok || all[0].Kind != Remove || all[0].Found != "n" {
		t.Error(all[0])
	}
	if a, ok := all[1].Action(); !ok || a.Kind != nodeconfig.Replace || a.Found != "id-etcd" || a.Process.Image == "old:v1" {
		t.Error(a)
	}
	if a, ok := all[2].Action(); !ok || a.Kind != nodeconfig.Create || a.Found != "id-kubelet" || a.Process.Name != "kubelet" {
		t.Error(a)
	}
}

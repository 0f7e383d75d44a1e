package desired

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/versions"
)

func data(t testing.TB) *versions.Data {
	t.Helper()
	d, err := versions.Load(t.Context(), "", versions.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The versions that golden files are of: with dockershim, the first without, and a late one.
var minors = []string{"v1.23.17-rancher1-1", "v1.24.17-rancher1-1", "v1.30.5-rancher1-1"}

// input is a cluster of five hosts, one for each set of roles, with the defaults of cluster.yml.
func input(t testing.TB, version string, change ...func(*config.Cluster)) Input {
	t.Helper()
	d := data(t)
	etcd, control, worker := config.RoleEtcd, config.RoleControlPlane, config.RoleWorker
	written := config.Cluster{
		KubernetesVersion: version,
		Nodes: []config.Node{
			{Address: "10.0.0.1", HostnameOverride: "all", Role: []string{control, worker, etcd}},
			{Address: "203.0.113.2", InternalAddress: "10.0.0.2", HostnameOverride: "etcd", Role: []string{etcd}},
			{Address: "10.0.0.3", HostnameOverride: "control", Role: []string{control}},
			{Address: "10.0.0.4", HostnameOverride: "worker", Role: []string{worker}},
			{Address: "10.0.0.5", HostnameOverride: "both", Role: []string{etcd, control}},
		},
	}
	filled := config.WithDefaults(written, config.Versions{Default: d.Default(), Images: d.Images})
	c := &filled
	for _, f := range change {
		f(c)
	}
	in := Input{Config: c, Versions: d, Hosts: map[string]Facts{}}
	for _, n := range c.Nodes {
		in.Hosts[n.Address] = facts()
	}
	return in
}

func facts() Facts {
	return Facts{
		OSType: "linux", OperatingSystem: "Debian GNU/Linux 12 (bookworm)", Architecture: "x86_64", DockerRootDir: "/var/lib/docker",
		SecurityOptions: []string{"name=seccomp,profile=builtin", "name=cgroupns"}, ServerVersion: "20.10.24",
	}
}

func hosts(t testing.TB, in Input) map[string]Host {
	t.Helper()
	all, err := Cluster(in)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func find(t testing.TB, h Host, name string) Container {
	t.Helper()
	i := slices.IndexFunc(h.Containers, func(c Container) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("host %s has no %s", h.Address, name)
	}
	return h.Containers[i]
}

// container is that of a host when the config is changed.
func container(t testing.TB, version, address, name string, change ...func(*config.Cluster)) Container {
	t.Helper()
	return find(t, hosts(t, input(t, version, change...))[address], name)
}

// written is a host as text, a line for each thing that can change.
func written(h Host) string {
	var b strings.Builder
	list := func(what string, all []string) {
		for _, one := range all {
			fmt.Fprintf(&b, "  %s %s\n", what, one)
		}
	}
	fmt.Fprintf(&b, "host %s, node %s, prefix %s\n", h.Address, h.Name, h.Prefix)
	for _, c := range h.Containers {
		fmt.Fprintf(&b, "\n%s, of the plane %s\n  image %s\n", c.Name, c.Plane, c.Image)
		fmt.Fprintf(&b, "  network %s, pid %q, restart %q, privileged %v, user %q\n", c.NetworkMode, c.PidMode, c.RestartPolicy, c.Privileged, c.User)
		if c.HealthCheck.URL != "" {
			fmt.Fprintf(&b, "  health %s\n", c.HealthCheck.URL)
		}
		list("command", c.Command)
		list("arg", c.Args)
		list("env", c.Env)
		list("bind", c.Binds)
		list("volumes-from", c.VolumesFrom)
		list("security", c.SecurityOpt)
		list("publish", c.Publish)
		for key, value := range c.Labels {
			fmt.Fprintf(&b, "  label %s=%s\n", key, value)
		}
	}
	for _, f := range h.Files {
		fmt.Fprintf(&b, "\nfile %s, %v\n%s", f.Path, f.Mode, f.Content)
	}
	b.WriteString("\nimages\n")
	list("image", h.Images)
	return b.String()
}

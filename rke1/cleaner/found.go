// Package cleaner takes off a host what a cluster of RKE1 leaves there when its containers are gone: containers of pods,
// mounts of their volumes, network devices, rules of iptables and directories. It looks first, and what it found is what a dry run
// prints and what is removed. Nothing is emptied through a mount: volumes have users' data. Snapshots of etcd stay.
//
// Source of what is left: rancher/rke hosts CleanUpAll with rke#1961, and the chains and devices of kube-proxy, the CNI plugins,
// flannel, calico and weave.
package cleaner

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Plan is what a host may have of a cluster.
type Plan struct {
	// Prefix stands before most paths.
	Prefix string
	// Etcd says that the host had a member, whose data go; Snapshots that its snapshots go, too.
	Etcd, Snapshots bool
	// Plugin is the network plugin, some of whose devices only it has.
	Plugin string
}

// snapshots is the directory of etcd's snapshots.
const snapshots = "/opt/rke/etcd-snapshots"

// Directories are what is emptied; they stay themselves, because they can be mount points.
func (p Plan) Directories() []string {
	dirs := []string{
		path.Join(p.Prefix, "/etc/kubernetes"), "/etc/cni", "/opt/cni", "/var/run/calico", path.Join(p.Prefix, "/var/lib/cni"),
		path.Join(p.Prefix, "/var/lib/kubelet"), "/var/lib/calico", "/var/lib/weave", "/run/flannel", path.Join(p.Prefix, "/var/lib/cri-dockerd"),
		"/var/lib/rancher/rke", "/var/log/containers", "/var/log/pods", path.Join(p.Prefix, "/var/log/kube-audit"),
	}
	if p.Prefix != "/" {
		dirs = append(dirs, "/var/lib/kubelet") // its volume plugins are at home where no prefix is
	}
	if p.Etcd {
		dirs = append(dirs, path.Join(p.Prefix, "/var/lib/etcd"))
	}
	if p.Snapshots {
		dirs = append(dirs, snapshots)
	}
	return dirs
}

// unmounts says whether what is mounted below a directory is the cluster's: volumes of pods, and calico's of its own.
func (p Plan) unmounts(dir string) bool {
	return slices.Contains([]string{path.Join(p.Prefix, "/var/lib/kubelet"), "/var/lib/kubelet", "/var/run/calico"}, dir)
}

// Found is what a host has of a cluster.
type Found struct {
	// Pods are the IDs of containers of pods.
	Pods []string
	// Mounts are mount points of the cluster, those below others first.
	Mounts []string
	// Links are network devices.
	Links []string
	// Rules is how many rules and chains of the cluster all tables of iptables and ip6tables have.
	Rules int
	// Directories are those of the plan that have something in them. Kept are those with a foreign mount below them, with
	// the mount point; they are left as they are.
	Directories []string
	Kept        map[string]string
}

// Empty says that nothing is to be done.
func (f Found) Empty() bool {
	return len(f.Pods)+len(f.Mounts)+len(f.Links)+f.Rules+len(f.Directories) == 0
}

// Lines are for people: what will be removed, and what will stay.
func (f Found) Lines() []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if len(f.Pods) > 0 {
		add("containers of pods: remove %d", len(f.Pods))
	}
	for _, m := range f.Mounts {
		add("mount %s: unmount", m)
	}
	for _, l := range f.Links {
		add("network device %s: delete", l)
	}
	if f.Rules > 0 {
		add("iptables: remove %d rules and chains", f.Rules)
	}
	for _, d := range f.Directories {
		if at := f.Kept[d]; at != "" {
			add("directory %s: stays as it is, because something is mounted on %s", d, at)
		} else {
			add("directory %s: empty", d)
		}
	}
	return lines
}

// read reads what the probe wrote: lines of a word and a value.
func (p Plan) read(text string) (Found, error) {
	f := Found{Kept: map[string]string{}}
	var points []string
	whole := false
	for line := range strings.Lines(text) {
		what, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch what {
		case "mount":
			fields := strings.Fields(value) // of mountinfo, whose fifth is the mount point
			if len(fields) < 5 {
				return Found{}, fmt.Errorf("%.100q is not a line of /proc/1/mountinfo", value)
			}
			points = append(points, unescape(fields[4]))
		case "link":
			if p.ownLink(value) {
				f.Links = append(f.Links, value)
			}
		case "rules":
			n, err := strconv.Atoi(value)
			if err != nil {
				return Found{}, fmt.Errorf("%.100q is not a number of rules", value)
			}
			f.Rules += n
		case "directory":
			f.Directories = append(f.Directories, value)
		case "end":
			whole = true
		}
	}
	if !whole || len(points) == 0 {
		return Found{}, fmt.Errorf("what the host has could not be read to its end")
	}
	p.place(&f, points)
	return f, nil
}

// place sorts mount points into those of the cluster and those of others.
func (p Plan) place(f *Found, points []string) {
	for _, dir := range p.Directories() {
		for _, at := range points {
			if !below(at, dir) || slices.Contains(f.Mounts, at) {
				continue
			}
			if p.unmounts(dir) {
				f.Mounts = append(f.Mounts, at)
			} else {
				f.Kept[dir] = at
			}
		}
	}
	slices.SortStableFunc(f.Mounts, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
}

// below says that a mount point is in a directory, and not the directory itself. /var/run is another name of /run.
func below(at, dir string) bool {
	canonical := func(p string) string {
		if rest, is := strings.CutPrefix(path.Clean(p), "/var/run/"); is {
			return "/run/" + rest
		}
		return path.Clean(p)
	}
	return strings.HasPrefix(canonical(at), canonical(dir)+"/")
}

// unescape reads a path of mountinfo, which has octal numbers for what would end it.
func unescape(p string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(p)
}

// ownLink says whether a network device is one of a cluster.
func (p Plan) ownLink(name string) bool {
	for _, prefix := range []string{"flannel.", "flannel-v6.", "cali", "vxlan-", "vethwe"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch name {
	case "cni0", "vxlan.calico", "vxlan-v6.calico", "wireguard.cali", "nodelocaldns", "kube-ipvs0", "weave", "datapath":
		return true
	case "tunl0":
		return p.Plugin == "calico" // it is the kernel's, and calico gives it an address
	}
	return false
}

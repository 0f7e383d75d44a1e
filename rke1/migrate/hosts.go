// What each host needs, what of Docker's has to go, and which data are on one host alone.

package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/config"
)

func (p *planner) docker() {
	const topic = "Docker"
	with := "Docker, by the kubelet itself"
	if c := p.c.EnableCRIDockerd; c != nil && *c {
		with = "Docker, by cri-dockerd"
	}
	p.do(topic, with, "RKE2 has a containerd of its own: images are pulled anew, `docker ps` shows no pods (crictl does), "+
		"and collectors of logs find them in /var/log/pods alone")
	if p.Live != nil && len(p.Live.DockerPods) > 0 {
		p.do(topic, "pods with Docker's socket or directory: "+some(p.Live.DockerPods), "they do not work without Docker: build images by other means, read metrics from the kubelet")
	}
}

// inTree are sources of volumes that were part of Kubernetes, with their CSI drivers.
var inTree = map[string]string{
	"awsElasticBlockStore": "ebs.csi.aws.com", "azureDisk": "disk.csi.azure.com", "azureFile": "file.csi.azure.com", "gcePersistentDisk": "pd.csi.storage.gke.io",
	"cinder": "cinder.csi.openstack.org", "vsphereVolume": "csi.vsphere.vmware.com", "cephfs": "cephfs.csi.ceph.com", "rbd": "rbd.csi.ceph.com",
	"glusterfs": "", "portworxVolume": "pxd.portworx.com", "quobyte": "", "scaleIO": "", "storageos": "", "flocker": "",
}

func (p *planner) storage() {
	const topic = "storage"
	if p.Live == nil {
		p.do(topic, "not looked at", "volumes are known to the running cluster alone: make this plan with --kubeconfig")
		return
	}
	groups := map[string][]Volume{}
	for _, v := range p.Live.Volumes {
		kind := v.Kind
		if v.Driver != "" {
			kind += " " + v.Driver
		}
		groups[kind] = append(groups[kind], v)
	}
	for _, kind := range slices.Sorted(maps.Keys(groups)) {
		all := groups[kind]
		found := fmt.Sprintf("%d volumes of %s: %s", len(all), kind, some(names(all)))
		driver, tree := inTree[all[0].Kind]
		switch {
		case all[0].Kind == "hostPath" || all[0].Kind == "local":
			p.do(topic, found, "the data are on single hosts: copy them, or see the host below")
		case all[0].Kind == "flexVolume":
			p.do(topic, found, "drivers of this kind are retired: go to a CSI driver, or put the old one into the kubelet's volume-plugin-dir", "kubelet-arg")
		case tree && driver == "":
			p.without(topic, found, "Kubernetes has it no more, and there is no driver to take its place: copy the data to other volumes")
		case tree:
			p.do(topic, found, "Kubernetes leaves them to the driver "+driver+": install it in the new cluster first, and make the volumes there by hand with the same handles")
		case all[0].Kind == "csi":
			p.do(topic, found, "install the driver in the new cluster, and make the volumes there with the same handles and reclaim policy Retain")
		default:
			p.do(topic, found, "make the volumes in the new cluster with the same source")
		}
	}
	if len(groups) == 0 {
		p.add(Item{Topic: topic, Level: Same, Found: "no persistent volumes"})
	}
}

// host is what one host needs.
func (p *planner) host(n config.Node) {
	add := func(topic string, level Level, found, needs string, settings ...string) {
		p.add(Item{Host: n.Address, Topic: topic, Level: level, Found: found, Needs: needs, Settings: settings})
	}
	roles := slices.Sorted(slices.Values(n.Role))
	needs, settings := part(n)
	add("roles", Set, strings.Join(roles, ", "), needs, settings...)
	name := strings.ToLower(cmp.Or(n.HostnameOverride, n.Address))
	add("name", Set, name, "node-name: "+name+", as workloads and volumes may know it", "node-name")
	if n.InternalAddress != "" && n.InternalAddress != n.Address {
		add("addresses", Set, n.Address+", inside "+n.InternalAddress, "node-ip: "+n.InternalAddress+", node-external-ip: "+n.Address, "node-ip", "node-external-ip")
	}
	if len(n.Labels) > 0 {
		add("labels", Set, keys(n.Labels), "node-label with the same", "node-label")
	}
	if taints := p.taints(n); taints != "" {
		add("taints", Set, taints, "node-taint with these: RKE2 gives none to servers by itself", "node-taint")
	}
	if p.c.PrefixPath != "" && p.c.PrefixPath != "/" {
		add("paths", Do, "everything is below "+p.c.PrefixPath, "data-dir, and an installation into a directory that can be written", "data-dir")
	}
	ports := "port 9345 of servers open to every host"
	if n.Has(config.RoleEtcd) {
		ports += ", 2379 and 2380 to those with etcd"
	}
	add("ports", Do, "those of RKE1", ports)
	p.running(n, name, add)
	add("cleaning", Do, "containers, /etc/kubernetes, /var/lib/etcd, /etc/cni, /opt/rke and rules of the firewall", "drain the node, take it out of cluster.yml and run `drover rke up`; restart the host before RKE2 comes")
}

// running is what the running cluster says of a host.
func (p *planner) running(n config.Node, name string, add func(topic string, level Level, found, needs string, settings ...string)) {
	if p.Live == nil {
		return
	}
	i := slices.IndexFunc(p.Live.Nodes, func(node Node) bool { return node.Name == name })
	if i < 0 {
		add("state", Do, "the cluster has no node "+name, "see whether the host is still part of it")
		return
	}
	node := p.Live.Nodes[i]
	level, needs := Same, ""
	if !node.Ready {
		level, needs = Do, "mend it before anything moves"
	}
	for _, system := range []string{"RancherOS", "Boot2Docker", "Windows"} {
		if strings.Contains(node.OS, system) {
			level, needs = Without, "RKE2 does not install on "+system+" as it does on Linux with systemd: plan another host"
		}
	}
	ready := "Ready"
	if !node.Ready {
		ready = "not Ready"
	}
	add("state", level, strings.Join([]string{ready, node.OS, node.Runtime}, ", "), needs)
	var here []Volume
	for _, v := range p.Live.Volumes {
		if slices.Contains(v.Nodes, name) {
			here = append(here, v)
		}
	}
	if len(here) > 0 {
		add("storage", Do, fmt.Sprintf("the data of %d volumes: %s", len(here), some(names(here))), "move this host last, or copy them first; the node has to keep its name for volumes that stay")
	}
}

// part is what a host is in RKE2.
func part(n config.Node) (needs string, settings []string) {
	etcd, plane := n.Has(config.RoleEtcd), n.Has(config.RoleControlPlane)
	switch {
	case etcd && plane:
		return "rke2-server", nil
	case etcd:
		settings = []string{"disable-apiserver", "disable-controller-manager", "disable-scheduler"}
		return "rke2-server with " + strings.Join(settings, ", "), settings
	case plane:
		return "rke2-server with disable-etcd", []string{"disable-etcd"}
	}
	return "rke2-agent", nil
}

// taints are those that the node has: RKE1 keeps pods from hosts that are not workers.
func (p *planner) taints(n config.Node) string {
	var all []string
	if !n.Has(config.RoleWorker) {
		if n.Has(config.RoleEtcd) {
			all = append(all, "node-role.kubernetes.io/etcd=true:NoExecute")
		}
		if n.Has(config.RoleControlPlane) {
			all = append(all, "node-role.kubernetes.io/control-plane=true:NoSchedule")
		}
	}
	for _, t := range n.Taints {
		all = append(all, t.Key+"="+t.Value+":"+t.Effect)
	}
	return strings.Join(all, ", ")
}

// names are those of volumes, by their claims where they have one.
func names(all []Volume) []string {
	var list []string
	for _, v := range all {
		list = append(list, cmp.Or(v.Claim, v.Name))
	}
	return list
}

// some are the first five of a list.
func some(all []string) string {
	if len(all) > 5 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:5], ", "), len(all)-5)
	}
	return strings.Join(all, ", ")
}

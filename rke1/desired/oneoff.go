// Containers that do one thing and end. Names are those of the peer, which removes leftovers by them; the engine that runs one removes
// a leftover first and looks at the exit code. What only reads or writes files is not here: Docker's copy of files does it
// without a shell, and without secrets that docker inspect shows.

package desired

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/pki"
)

// Names of containers that end.
const (
	EtcdFixPermissions  = "etcd-fix-perm"
	EtcdPortListener    = "rke-etcd-port-listener"
	ControlPortListener = "rke-cp-port-listener"
	WorkerPortListener  = "rke-worker-port-listener"
	PortChecker         = "rke-port-checker"
	// The containers below are drover's alone; the peer has none of them.
	OverlayPortListener = "rke-overlay-port-listener"
	MountChecker        = "rke-mount-checker"
	SocketChecker       = "rke-socket-checker"
	SELinuxChecker      = "rke-selinux-checker"
	BundleCertificates  = "rke-bundle-cert"
	Cleaner             = "kube-cleaner"
	SnapshotOnce        = "etcd-snapshot-once"
	SnapshotRemove      = "etcd-remove-snapshot"
	SnapshotRestore     = "etcd-restore"
	SnapshotDownload    = "etcd-download-backup"
	SnapshotServe       = "etcd-Serve-backup"
	SnapshotChecksum    = "etcd-checksum-checker"
	SnapshotState       = "etcd-extract-statefile"
)

// leftovers are names of containers that end, which neither this program nor the peer leaves behind on purpose.
func leftovers() []string {
	return []string{
		EtcdFixPermissions, EtcdPortListener, ControlPortListener, WorkerPortListener, PortChecker, OverlayPortListener, MountChecker, SocketChecker, SELinuxChecker, BundleCertificates, Cleaner,
		SnapshotOnce, SnapshotRemove, SnapshotRestore, SnapshotDownload, SnapshotServe, SnapshotChecksum, SnapshotState,
		"cert-deployer", "cert-fetcher", "file-deployer", "cluster-state-deployer", "rke-log-linker", "rke-log-cleaner", "extract-statefile-configmap",
	}
}

// Once makes the containers of a host that end.
type Once struct{ host }

// Once is for one host. It returns an error for an address that is not in the config.
func (p *Plan) Once(address string) (Once, error) {
	o, err := p.on(address)
	return Once{o}, err
}

// shell is a container of the alpine image with a script.
func (o Once) shell(name, script string, binds ...string) nodeconfig.Process {
	return o.ready(nodeconfig.Process{
		Name: name, Image: o.config.SystemImages.Alpine, Args: []string{"sh", "-c", script}, Binds: o.binds(binds, nil), RestartPolicy: "no",
	})
}

func (o Once) ready(p nodeconfig.Process) nodeconfig.Process {
	p.ImageRegistryAuthConfig = o.login(p.Image)
	if !p.Privileged && o.facts.SELinux() && o.version.AtLeast(1, 22) {
		p.SecurityOpt = []string{typeLabel}
	}
	return p
}

// FixPermissions makes etcd's data directory with its mode, and its owner where etcd has a user of its own.
func (o Once) FixPermissions() nodeconfig.Process {
	script := "chmod 700 " + etcdData
	if user := o.etcdUser(); user != "" {
		script += " && chown -R " + user + " " + etcdData
	}
	return o.shell(EtcdFixPermissions, script, o.path(etcdHostData)+":"+etcdData+":z")
}

// PortListener listens on the ports of a role, for others to knock on.
func (o Once) PortListener(role string) nodeconfig.Process {
	of := map[string]struct {
		name  string
		ports []int
	}{
		config.RoleEtcd:         {EtcdPortListener, []int{2379, 2380}},
		config.RoleControlPlane: {ControlPortListener, []int{6443}},
		config.RoleWorker:       {WorkerPortListener, []int{10250}},
	}[role]
	p := o.ready(nodeconfig.Process{
		Name: of.name, Image: o.config.SystemImages.Alpine, Args: []string{"nc", "-kl", "-p", "1337", "-e", "echo"}, RestartPolicy: "no",
	})
	for _, port := range of.ports {
		p.Publish = append(p.Publish, "0.0.0.0:"+strconv.Itoa(port)+":1337/tcp")
	}
	return p
}

// PortChecker knocks on ports of hosts and writes those that do not answer to stderr, as HOST:PORT in lines.
func (o Once) PortChecker(hosts []string, ports []int) nodeconfig.Process {
	numbers := strings.Trim(fmt.Sprint(ports), "[]")
	p := o.shell(PortChecker, `for host in $HOSTS; do for port in $PORTS; do nc -w 5 -z "$host" "$port" >/dev/null 2>&1 || echo "$host:$port" >&2; done; done`)
	p.Env = []string{"HOSTS=" + strings.Join(hosts, " "), "PORTS=" + numbers}
	p.NetworkMode = "host"
	return p
}

// SELinuxChecker can only start where the host's policy has RKE1's type, which the package rancher-selinux brings.
func (o Once) SELinuxChecker() nodeconfig.Process {
	p := o.shell(SELinuxChecker, "exit 0")
	p.SecurityOpt = []string{typeLabel}
	return p
}

// listens ends well when a process listens on a socket: one whose process has gone is still a file. The kernel lists it by the path
// that was given to it, which need not be the one seen here; and cri-dockerd, as all that use Kubernetes' library, listens on a file
// beside it whose name is a number, and then moves that. Wire source: k8s.io/kubernetes pkg/kubelet/util CreateListener.
const listens = `at=$(readlink -f "$1") && [ -S "$at" ] && awk -v name="${1##*/}" -v at="$at" -v dir="${at%/*}" '
$4 == "00010000" {
	n = split($8, part, "/"); of = substr($8, 1, length($8) - length(part[n]) - 1)
	if (part[n] == name || $8 == at || part[n] ~ /^[0-9]+$/ && (of == dir || of == "/run" || of == "/var/run")) found = 1
}
END { exit !found }' /proc/net/unix`

// SocketChecker ends well when cri-dockerd listens for the kubelet.
func (o Once) SocketChecker() nodeconfig.Process {
	p := o.shell(SocketChecker, listens, "/var/run:/var/run")
	p.Command, p.Args = append(p.Args, "listens", CRISocket), nil
	p.NetworkMode = "host"
	return p
}

// CRISocket is where the kubelet finds cri-dockerd on its host.
const CRISocket = "/var/run/cri-dockerd.sock"

// CRIDockerd says whether a container is a kubelet that talks to Docker through cri-dockerd.
func (c Container) CRIDockerd() bool {
	return c.Name == Kubelet && slices.Contains(c.Env, criDockerdOn)
}

const criDockerdOn = "RKE_KUBELET_CRIDOCKERD=true"

// Bundle keeps what the peer has of certificates in a temporary place beside the snapshots.
func (o Once) Bundle() nodeconfig.Process {
	p := o.shell(BundleCertificates, `cd /etc/kubernetes/.tmp 2>/dev/null || exit 0; [ -z "$(ls -A)" ] || tar -czf /backup/pki.bundle.tar.gz -C / etc/kubernetes/.tmp`,
		o.kubernetesBind(), snapshots+":/backup:z")
	p.Privileged, p.SecurityOpt = true, nil
	return p
}

// SnapshotOnce takes a snapshot now, on the host and, where the config has one without keys, in the bucket.
func (o Once) SnapshotOnce(name string) nodeconfig.Process {
	p := o.snapshot(SnapshotOnce, name)
	p.Args = append(p.Args, "--once")
	o.onSchedule(&p)
	o.byRole(&p)
	return o.ready(p)
}

// byRole tells a container of a bucket that the host's own role opens. One with keys is the engine's: they would stand in the container's environment.
func (o Once) byRole(p *nodeconfig.Process) {
	if b := o.config.Services.Etcd.BackupConfig; b != nil && !b.S3.HasKeys() {
		o.toBucket(p)
	}
}

// tools is a container of the snapshot program with other work than saving.
func (o Once) tools(name string, args ...string) nodeconfig.Process {
	p := o.snapshot(name, "")
	p.Args = append([]string{"/opt/rke-tools/rke-etcd-backup", "etcd-backup"}, args...)
	return o.ready(p)
}

func member() []string {
	cert, key := pem(pki.Node)
	return []string{"--cacert", caFile, "--cert", cert, "--key", key}
}

// SnapshotRemove removes a snapshot from the host and the bucket; cleanup removes only what a restore unpacked.
func (o Once) SnapshotRemove(name string, cleanup bool) nodeconfig.Process {
	p := o.tools(SnapshotRemove, "delete", "--name", name)
	if cleanup {
		p.Args = append(p.Args, "--cleanup")
		return p
	}
	o.byRole(&p)
	return p
}

// SnapshotDownload gets a snapshot from the host that serves it, at its internal address; "" is the bucket, which the host's role opens.
func (o Once) SnapshotDownload(name, from string) nodeconfig.Process {
	p := o.tools(SnapshotDownload, "download", "--name", name)
	if from == "" {
		o.byRole(&p)
		return p
	}
	p.Args = append(append(p.Args, "--local-endpoint", from), member()...)
	return p
}

// SnapshotServe serves a snapshot of the host to the others, on etcd's port.
func (o Once) SnapshotServe(name string) nodeconfig.Process {
	return o.tools(SnapshotServe, append([]string{"serve", "--name", name}, member()...)...)
}

// SnapshotState puts the state file that is in a snapshot to /tmp/cluster.rkestate in the container.
func (o Once) SnapshotState(name string) nodeconfig.Process {
	p := o.tools(SnapshotState, "extractstatefile", "--name", name)
	o.byRole(&p)
	return p
}

// SnapshotChecksum writes the checksum of an unpacked snapshot to stdout.
func (o Once) SnapshotChecksum(name string) nodeconfig.Process {
	p := o.shell(SnapshotChecksum, `md5sum "$SNAPSHOT" | cut -d " " -f 1 | tr -d "\n"`, "/opt/rke/:/opt/rke/:z")
	p.Env = []string{"SNAPSHOT=" + snapshots + name}
	return p
}

// EtcdAside is the directory in etcd's own that has the data from before a restore, until the restore is known to have succeeded.
const EtcdAside = "before-restore"

// SnapshotRestore makes etcd's data of an unpacked snapshot, beside the data that are there, and lets them change places; etcd must
// not run. The data from before are in EtcdAside then, and stay those from before the first try when it is done again. Both are
// renamed within one file system, which may be mounted just there. The peer empties the directory first.
func (o Once) SnapshotRestore(name string) nodeconfig.Process {
	script := `set -e
new="$DATA/restored.new"
rm -rf "$new"
etcdctl snapshot restore "$SNAPSHOT" --data-dir="$new" --name="$MEMBER" --initial-cluster="$CLUSTER" --initial-cluster-token=etcd-cluster-1 --initial-advertise-peer-urls="$PEER"
if [ -e "$ASIDE/member" ]; then rm -rf "$DATA/member"; elif [ -e "$DATA/member" ]; then mkdir -p "$ASIDE" && mv "$DATA/member" "$ASIDE/member"; fi
mv "$new/member" "$DATA/member"
rm -rf "$new"
if [ -e "$SNAPSHOT.zip" ]; then rm -f "$SNAPSHOT"; fi`
	p := nodeconfig.Process{
		Name: SnapshotRestore, Image: o.toolsImage(), Command: []string{"sh", "-c", script}, NetworkMode: "host", RestartPolicy: "no",
		Env: append([]string{
			"ETCDCTL_API=3", "DATA=" + strings.TrimSuffix(etcdData, "/"), "ASIDE=" + etcdData + EtcdAside, "SNAPSHOT=" + snapshots + name,
			"MEMBER=etcd-" + nodeName(o), "CLUSTER=" + o.InitialCluster(), "PEER=https://" + address(internal(o.node), 2380),
		}, o.config.Services.Etcd.ExtraEnv...),
		Binds: o.binds([]string{"/opt/rke/:/opt/rke/:z", o.path(etcdHostData) + ":" + etcdData + ":z"}, nil),
	}
	return o.ready(p)
}

func nodeName(o Once) string { return name(o.node) }

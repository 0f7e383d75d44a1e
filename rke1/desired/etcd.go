// etcd and the container that takes its snapshots.

package desired

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/versions"
)

const (
	etcdData     = "/var/lib/rancher/etcd/" // in the container
	etcdHostData = "/var/lib/etcd"          // below the prefix
	snapshots    = "/opt/rke/etcd-snapshots/"
)

// Bounds of old etcd images, with a suffix above all that were released.
var (
	lastWithPort4001  = versions.Version{Major: 3, Minor: 4, Patch: 3, Rest: "rancher99"}
	lastWithAnyCipher = versions.Version{Major: 3, Minor: 4, Patch: 14, Rest: "rancher99"}
	lastWithEndpoint  = versions.Version{Major: 3, Minor: 2, Patch: 99}
)

func (o host) etcd() nodeconfig.Process {
	c := o.config.Services.Etcd
	own := internal(o.node)
	listen, local := "0.0.0.0", "127.0.0.1"
	if own != o.node.Address {
		listen, local = own, own
	}
	cert, key := pem(pki.EtcdName(*o.node))
	f := o.etcdFlags(listen, own, cert, key)
	endpoints := "ETCDCTL_ENDPOINTS=https://" + address(local, 2379)
	if is, ok := versions.Parse(versions.Tag(o.config.SystemImages.Etcd)); ok {
		if is.Compare(lastWithPort4001) < 0 {
			f["advertise-client-urls"] += ",https://" + address(own, 4001)
		}
		if is.Compare(lastWithAnyCipher) < 0 {
			delete(f, "cipher-suites")
		}
		if is.Compare(lastWithEndpoint) < 0 {
			endpoints = "ETCDCTL_ENDPOINT=https://" + address(listen, 2379)
		}
	}
	f.override(o.options.Etcd)
	args := []string{"/usr/local/bin/etcd"}
	all := f.list(c.Service)
	for _, flag := range []string{"client-cert-auth", "peer-client-cert-auth"} {
		if _, set := f[flag]; !set {
			args = append(args, "--"+flag)
		}
	}
	arch := o.facts.Architecture
	if arch == "aarch64" {
		arch = "arm64"
	}
	return nodeconfig.Process{
		Name:  Etcd,
		Image: o.config.SystemImages.Etcd,
		Args:  append(args, all...),
		Env: append([]string{
			"ETCDCTL_API=3", "ETCDCTL_CACERT=" + caFile, "ETCDCTL_CERT=" + cert, "ETCDCTL_KEY=" + key, endpoints, "ETCD_UNSUPPORTED_ARCH=" + arch,
		}, c.ExtraEnv...),
		Binds:         o.binds([]string{o.path(etcdHostData) + ":" + etcdData + ":z", o.path("/etc/kubernetes") + ":/etc/kubernetes:z"}, c.ExtraBinds),
		NetworkMode:   "host",
		RestartPolicy: "always",
		User:          o.etcdUser(),
		HealthCheck:   nodeconfig.HealthCheck{URL: "https://" + address(own, 2379) + "/health"},
	}
}

// etcdFlags are those of the newest version.
func (o host) etcdFlags(listen, own, cert, key string) flags {
	state := "new"
	if o.Joining {
		state = "existing"
	}
	return flags{
		"name":                        "etcd-" + name(o.node),
		"data-dir":                    etcdData,
		"listen-client-urls":          "https://" + address(listen, 2379),
		"listen-peer-urls":            "https://" + address(listen, 2380),
		"advertise-client-urls":       "https://" + address(own, 2379),
		"initial-advertise-peer-urls": "https://" + address(own, 2380),
		"initial-cluster-token":       "etcd-cluster-1",
		"initial-cluster":             o.InitialCluster(),
		"initial-cluster-state":       state,
		"trusted-ca-file":             caFile,
		"peer-trusted-ca-file":        caFile,
		"cert-file":                   cert,
		"key-file":                    key,
		"peer-cert-file":              cert,
		"peer-key-file":               key,
		"cipher-suites":               "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
	}
}

// etcdUser is the container's user, "" for the image's.
func (p *Plan) etcdUser() string {
	c := p.config.Services.Etcd
	if c.UID == 0 || c.GID == 0 {
		return ""
	}
	return fmt.Sprintf("%d:%d", c.UID, c.GID)
}

// InitialCluster is etcd's list of members: etcd-NAME=https://ADDRESS:2380, with commas between.
func (p *Plan) InitialCluster() string {
	var members []string
	for _, n := range p.with(config.RoleEtcd) {
		if p.Members == nil || slices.Contains(p.Members, n.Address) {
			members = append(members, "etcd-"+name(n)+"=https://"+address(internal(n), 2380))
		}
	}
	return strings.Join(members, ",")
}

// rollingSnapshots takes a snapshot again and again. The peer makes it anew on each run, which puts the next snapshot off;
// here it stays as long as it is right.
func (o host) rollingSnapshots() nodeconfig.Process {
	p := o.snapshot(RollingSnapshots, RollingSnapshots)
	p.RestartPolicy = "always"
	if c := o.config.Services.Etcd; c.BackupConfig == nil {
		p.Args = append(p.Args, "--retention="+c.Retention, "--creation="+c.Creation)
	}
	o.onSchedule(&p)
	o.toBucket(&p)
	if b := o.config.Services.Etcd.BackupConfig; b != nil && b.S3.HasKeys() {
		// Its program knows no other place for them, and works without us.
		p.Env = append(p.Env,
			"S3_ACCESS_KEY="+base64.StdEncoding.EncodeToString([]byte(b.S3.AccessKey)), "S3_SECRET_KEY="+base64.StdEncoding.EncodeToString([]byte(b.S3.SecretKey)))
	}
	return p
}

// snapshot is a container that saves a snapshot of the host's own member under a name.
func (o host) snapshot(container, name string) nodeconfig.Process {
	cert, key := pem(pki.Node)
	return nodeconfig.Process{
		Name:  container,
		Image: o.toolsImage(),
		Args: []string{
			"/opt/rke-tools/rke-etcd-backup", "etcd-backup", "save", "--cacert", caFile, "--cert", cert, "--key", key,
			"--name", name, "--endpoints=" + address(internal(o.node), 2379),
		},
		Env:           slices.Clone(o.config.Services.Etcd.ExtraEnv),
		Binds:         o.binds([]string{snapshots + ":/backup:z", o.path("/etc/kubernetes") + ":/etc/kubernetes:z"}, nil),
		NetworkMode:   "host",
		RestartPolicy: "no",
	}
}

// onSchedule tells a snapshot container how often it works and how much it keeps.
func (p *Plan) onSchedule(process *nodeconfig.Process) {
	if b := p.config.Services.Etcd.BackupConfig; b != nil {
		process.Args = append(process.Args, "--creation="+strconv.Itoa(b.IntervalHours)+"h", "--retention="+strconv.Itoa(b.Retention*b.IntervalHours)+"h")
	}
}

// toBucket tells a snapshot container of the bucket, but for its keys.
func (p *Plan) toBucket(process *nodeconfig.Process) {
	b := p.config.Services.Etcd.BackupConfig
	if b == nil || b.S3 == nil {
		return
	}
	process.Args = append(process.Args, "--s3-backup=true", "--s3-endpoint="+b.S3.Endpoint, "--s3-bucketName="+b.S3.BucketName, "--s3-region="+b.S3.Region)
	if b.S3.CustomCA != "" {
		process.Args = append(process.Args, "--s3-endpoint-ca="+base64.StdEncoding.EncodeToString([]byte(b.S3.CustomCA)))
	}
	if b.S3.Folder != "" {
		process.Args = append(process.Args, "--s3-folder="+b.S3.Folder)
	}
}

// toolsImage is the helper image of everything about snapshots: the newest one known.
func (p *Plan) toolsImage() string { return p.Versions.ToolsImage(p.config.SystemImages.Alpine) }

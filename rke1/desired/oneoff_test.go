package desired

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/nodeconfig"
)

func once503(t *testing.T, address string, change ...func(*config.Cluster)) Once {
	t.Helper()
	p, err := New(input(t, minors[2], change...))
	if err != nil {
		t.Fatal(err)
	}
	o, err := p.Once(address)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func line(p nodeconfig.Process) string {
	parts := []string{p.Name, p.Image}
	parts = append(parts, slices.Concat(p.Command, p.Args)...)
	for _, list := range []struct {
		what string
		all  []string
	}{{"env", p.Env}, {"bind", p.Binds}, {"publish", p.Publish}, {"security", p.SecurityOpt}} {
		for _, one := range list.all {
			parts = append(parts, list.what+":"+one)
		}
	}
	return strings.Join(parts, " ")
}

func TestContainersThatEnd(t *testing.T) {
	const (
		tools  = " rancher/rke-tools:v0.1.108 /opt/rke-tools/rke-etcd-backup etcd-backup "
		alpine = " rancher/rke-tools:v0.1.103 "
		member = "--cacert " + ssl + "kube-ca.pem --cert " + ssl + "kube-node.pem --key " + ssl + "kube-node-key.pem"
		binds  = " bind:/opt/rke/etcd-snapshots/:/backup bind:/etc/kubernetes:/etc/kubernetes"
	)
	bucket := func(c *config.Cluster) {
		c.Services.Etcd.BackupConfig = &config.BackupConfig{IntervalHours: 12, Retention: 6, S3: &config.S3Backup{Endpoint: "s3.example", BucketName: "b", Region: "r"}}
	}
	const s3 = "--s3-backup=true --s3-endpoint=s3.example --s3-bucketName=b --s3-region=r"
	o, s := once503(t, "10.0.0.5"), once503(t, "10.0.0.5", bucket)
	user := once503(t, "10.0.0.5", func(c *config.Cluster) { c.Services.Etcd.UID, c.Services.Etcd.GID, c.PrefixPath = 7, 8, "/p" })
	for _, c := range []struct {
		got  nodeconfig.Process
		want string
	}{
		{o.FixPermissions(), "etcd-fix-perm" + alpine + "sh -c chmod 700 /var/lib/rancher/etcd/ bind:/var/lib/etcd:/var/lib/rancher/etcd/"},
		{user.FixPermissions(), "etcd-fix-perm" + alpine + "sh -c chmod 700 /var/lib/rancher/etcd/ && chown -R 7:8 /var/lib/rancher/etcd/ bind:/p/var/lib/etcd:/var/lib/rancher/etcd/"},
		{o.PortListener(config.RoleEtcd), "rke-etcd-port-listener" + alpine + "nc -kl -p 1337 -e echo publish:0.0.0.0:2379:1337/tcp publish:0.0.0.0:2380:1337/tcp"},
		{o.PortListener(config.RoleControlPlane), "rke-cp-port-listener" + alpine + "nc -kl -p 1337 -e echo publish:0.0.0.0:6443:1337/tcp"},
		{o.PortListener(config.RoleWorker), "rke-worker-port-listener" + alpine + "nc -kl -p 1337 -e echo publish:0.0.0.0:10250:1337/tcp"},
		{o.SELinuxChecker(), "rke-selinux-checker" + alpine + "sh -c exit 0 security:label=type:rke_container_t"},
		{o.SnapshotOnce("s"), "etcd-snapshot-once" + tools + "save " + member + " --name s --endpoints=10.0.0.5:2379 --once" + binds},
		{s.SnapshotOnce("s"), "etcd-snapshot-once" + tools + "save " + member + " --name s --endpoints=10.0.0.5:2379 --once --creation=12h --retention=72h " + s3 + binds},
		{o.SnapshotRemove("s", true), "etcd-remove-snapshot" + tools + "delete --name s --cleanup" + binds},
		{s.SnapshotRemove("s", false), "etcd-remove-snapshot" + tools + "delete --name s " + s3 + binds},
		{s.SnapshotDownload("s", ""), "etcd-download-backup" + tools + "download --name s " + s3 + binds},
		{s.SnapshotDownload("s", "10.0.0.2"), "etcd-download-backup" + tools + "download --name s --local-endpoint 10.0.0.2 " + member + binds},
		{o.SnapshotServe("s"), "etcd-Serve-backup" + tools + "serve --name s " + member + binds},
		{s.SnapshotState("s"), "etcd-extract-statefile" + tools + "extractstatefile --name s " + s3 + binds},
	} {
		if got := line(c.got); got != c.want {
			t.Errorf("\n got %s\nwant %s", got, c.want)
		}
		if len(c.got.Labels) > 0 || c.got.RestartPolicy != "no" {
			t.Errorf("%s has labels or starts again", c.got.Name)
		}
		if !slices.Contains(Leavings(), c.got.Name) {
			t.Errorf("%s is not known as a leftover", c.got.Name)
		}
	}
}

func TestPortChecker(t *testing.T) {
	p := once503(t, "10.0.0.4").PortChecker([]string{"10.0.0.1", "10.0.0.3"}, []int{2379, 2380})
	if p.NetworkMode != "host" || strings.Join(p.Env, " ") != "HOSTS=10.0.0.1 10.0.0.3 PORTS=2379 2380" {
		t.Error(p.NetworkMode, p.Env)
	}
}

// A name that a user chose is a value of the environment and never part of a script.
func TestRestoreOfAnyName(t *testing.T) {
	const name = "s; rm -rf /"
	for _, etcd := range []string{"rancher/mirrored-coreos-etcd:v3.5.6", "own/etcd:v3.5.12"} {
		o := once503(t, "203.0.113.2", func(c *config.Cluster) { c.SystemImages.Etcd = etcd })
		p := o.SnapshotRestore(name)
		if p.Image != "rancher/rke-tools:v0.1.108" { // etcd's own image has no shell from 3.5.7 on
			t.Errorf("%s is restored with %s", etcd, p.Image)
		}
		for _, p := range []nodeconfig.Process{p, o.SnapshotChecksum(name)} {
			if strings.Contains(strings.Join(slices.Concat(p.Command, p.Args), " "), name) || !slices.Contains(p.Env, "SNAPSHOT=/opt/rke/etcd-snapshots/"+name) {
				t.Errorf("%s has the name in its script: %v", p.Name, p)
			}
		}
		for _, e := range []string{"MEMBER=etcd-etcd", "PEER=https://10.0.0.2:2380", "CLUSTER=etcd-all=https://10.0.0.1:2380,etcd-etcd=https://10.0.0.2:2380,etcd-both=https://10.0.0.5:2380"} {
			if !slices.Contains(p.Env, e) {
				t.Errorf("no %s in %v", e, p.Env)
			}
		}
	}
}

func TestBundleIsPrivileged(t *testing.T) {
	if p := once503(t, "10.0.0.1").Bundle(); !p.Privileged || p.SecurityOpt != nil || !slices.Contains(p.Binds, "/opt/rke/etcd-snapshots/:/backup") {
		t.Error(p)
	}
}

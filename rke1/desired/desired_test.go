package desired

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/config/clouds"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/versions"
)

var update = flag.Bool("update", false, "write the golden files anew")

// A golden file that changes for an unchanged config restarts a user's cluster.
func TestGolden(t *testing.T) {
	for _, version := range minors {
		all := hosts(t, input(t, version))
		if len(all) != 5 {
			t.Errorf("%s: %d hosts", version, len(all))
		}
		for _, h := range all {
			file := filepath.Join("testdata", version, h.Name+".golden")
			got := written(h)
			if *update {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s:\n%s", file, diff)
			}
		}
	}
}

const (
	suites = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305," +
		"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"
	ssl = "/etc/kubernetes/ssl/"
)

// TestFlagsOf1305 has the flags of the contract, which were taken from a cluster of the peer with v1.30.5-rancher1-1.
func TestFlagsOf1305(t *testing.T) {
	all := hosts(t, input(t, "v1.30.5-rancher1-1"))
	want := map[string]string{
		KubeAPIServer: `--etcd-servers=https://10.0.0.1:2379,https://10.0.0.2:2379,https://10.0.0.5:2379 --etcd-cafile=` + ssl + `kube-ca.pem
			--etcd-certfile=` + ssl + `kube-node.pem --etcd-keyfile=` + ssl + `kube-node-key.pem --etcd-prefix=/registry --storage-backend=etcd3
			--bind-address=0.0.0.0 --secure-port=6443 --tls-cert-file=` + ssl + `kube-apiserver.pem --tls-private-key-file=` + ssl + `kube-apiserver-key.pem
			--tls-cipher-suites=` + suites + ` --client-ca-file=` + ssl + `kube-ca.pem --anonymous-auth=false
			--requestheader-client-ca-file=` + ssl + `kube-apiserver-requestheader-ca.pem --requestheader-allowed-names=kube-apiserver-proxy-client
			--requestheader-extra-headers-prefix=X-Remote-Extra- --requestheader-group-headers=X-Remote-Group --requestheader-username-headers=X-Remote-User
			--proxy-client-cert-file=` + ssl + `kube-apiserver-proxy-client.pem --proxy-client-key-file=` + ssl + `kube-apiserver-proxy-client-key.pem
			--kubelet-client-certificate=` + ssl + `kube-apiserver.pem --kubelet-client-key=` + ssl + `kube-apiserver-key.pem
			--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname --service-account-key-file=` + ssl + `kube-service-account-token-key.pem
			--service-account-signing-key-file=` + ssl + `kube-service-account-token-key.pem --service-account-issuer=rke --service-account-lookup=true
			--api-audiences=unknown --authorization-mode=Node,RBAC
			--enable-admission-plugins=NamespaceLifecycle,LimitRanger,ServiceAccount,DefaultStorageClass,DefaultTolerationSeconds,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,ResourceQuota,NodeRestriction,Priority,TaintNodesByCondition,PersistentVolumeClaimResize
			--admission-control-config-file=/etc/kubernetes/admission.yaml --audit-policy-file=/etc/kubernetes/audit-policy.yaml
			--audit-log-path=/var/log/kube-audit/audit-log.json --audit-log-maxage=30 --audit-log-maxbackup=10 --audit-log-maxsize=100 --audit-log-format=json
			--service-cluster-ip-range=10.43.0.0/16 --service-node-port-range=30000-32767 --advertise-address=10.0.0.1 --allow-privileged=true
			--profiling=false --runtime-config=authorization.k8s.io/v1beta1=true --cloud-provider=`,
		ControllerManager: `--kubeconfig=` + ssl + `kubecfg-kube-controller-manager.yaml --authentication-kubeconfig=` + ssl + `kubecfg-kube-controller-manager.yaml
			--authorization-kubeconfig=` + ssl + `kubecfg-kube-controller-manager.yaml --root-ca-file=` + ssl + `kube-ca.pem
			--service-account-private-key-file=` + ssl + `kube-service-account-token-key.pem --cluster-cidr=10.42.0.0/16 --service-cluster-ip-range=10.43.0.0/16
			--cloud-provider= --allocate-node-cidrs=true --allow-untagged-cloud=true --configure-cloud-routes=false --enable-hostpath-provisioner=false
			--leader-elect=true --node-monitor-grace-period=40s --profiling=false --terminated-pod-gc-threshold=1000 --v=2`,
		Scheduler: `--kubeconfig=` + ssl + `kubecfg-kube-scheduler.yaml --authentication-kubeconfig=` + ssl + `kubecfg-kube-scheduler.yaml
			--authorization-kubeconfig=` + ssl + `kubecfg-kube-scheduler.yaml --leader-elect=true --profiling=false --v=2`,
		Kubelet: `--address=0.0.0.0 --anonymous-auth=false --authentication-token-webhook=true --authorization-mode=Webhook --cgroups-per-qos=True
			--client-ca-file=` + ssl + `kube-ca.pem --cloud-provider= --cluster-dns=10.43.0.10 --cluster-domain=cluster.local
			--container-runtime-endpoint=unix:///var/run/cri-dockerd.sock --event-qps=0 --fail-swap-on=false --hostname-override=all
			--kubeconfig=` + ssl + `kubecfg-kube-node.yaml --make-iptables-util-chains=true --pod-infra-container-image=rancher/mirrored-pause:3.7
			--read-only-port=0 --resolv-conf=/etc/resolv.conf --root-dir=/var/lib/kubelet --streaming-connection-idle-timeout=30m
			--tls-cipher-suites=` + suites + ` --v=2 --volume-plugin-dir=/var/lib/kubelet/volumeplugins`,
		KubeProxy: `--cluster-cidr=10.42.0.0/16 --healthz-bind-address=127.0.0.1 --hostname-override=all --kubeconfig=` + ssl + `kubecfg-kube-proxy.yaml --v=2`,
		Etcd: `/usr/local/bin/etcd --name=etcd-all --data-dir=/var/lib/rancher/etcd/ --listen-client-urls=https://0.0.0.0:2379 --listen-peer-urls=https://0.0.0.0:2380
			--advertise-client-urls=https://10.0.0.1:2379 --initial-advertise-peer-urls=https://10.0.0.1:2380 --initial-cluster-token=etcd-cluster-1
			--initial-cluster=etcd-all=https://10.0.0.1:2380,etcd-etcd=https://10.0.0.2:2380,etcd-both=https://10.0.0.5:2380 --initial-cluster-state=new
			--trusted-ca-file=` + ssl + `kube-ca.pem --peer-trusted-ca-file=` + ssl + `kube-ca.pem --cert-file=` + ssl + `kube-etcd-10-0-0-1.pem
			--key-file=` + ssl + `kube-etcd-10-0-0-1-key.pem --peer-cert-file=` + ssl + `kube-etcd-10-0-0-1.pem --peer-key-file=` + ssl + `kube-etcd-10-0-0-1-key.pem
			--client-cert-auth=true --peer-client-cert-auth=true
			--cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 --election-timeout=5000 --heartbeat-interval=500`,
	}
	for name, flags := range want {
		c := find(t, all["10.0.0.1"], name)
		got := c.Command
		if name == Etcd {
			got = c.Args
		} else if !slices.Equal(got[:2], []string{"/opt/rke-tools/entrypoint.sh", name}) {
			t.Errorf("%s begins with %v", name, got[:2])
		} else {
			got = got[2:]
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(strings.Fields(flags))), slices.Sorted(slices.Values(got))); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	wantBinds := strings.Fields(`/var/lib/cri-dockerd:/var/lib/cri-dockerd /etc/kubernetes:/etc/kubernetes /etc/cni:/etc/cni:rw /opt/cni:/opt/cni:rw
		/var/lib/cni:/var/lib/cni /var/lib/calico:/var/lib/calico /etc/resolv.conf:/etc/resolv.conf /sys:/sys:rprivate /var/lib/docker:/var/lib/docker:rw,rslave
		/var/lib/kubelet:/var/lib/kubelet:shared /var/lib/rancher:/var/lib/rancher:shared /var/run:/var/run:rw,rprivate /run:/run:rprivate /etc/ceph:/etc/ceph
		/dev:/host/dev:rprivate /var/log/containers:/var/log/containers /var/log/pods:/var/log/pods /usr:/host/usr:ro /etc:/host/etc:ro`)
	if diff := cmp.Diff(wantBinds, find(t, all["10.0.0.1"], Kubelet).Binds); diff != "" {
		t.Errorf("binds of the kubelet:\n%s", diff)
	}
}

func TestOrderAndPlanes(t *testing.T) {
	all := hosts(t, input(t, "v1.30.5-rancher1-1"))
	for address, want := range map[string]string{
		"10.0.0.1":    "etcd etcd-rolling-snapshots | service-sidekick kube-apiserver kube-controller-manager kube-scheduler | kubelet kube-proxy",
		"203.0.113.2": "etcd etcd-rolling-snapshots |  | nginx-proxy service-sidekick kubelet kube-proxy",
		"10.0.0.3":    " | service-sidekick kube-apiserver kube-controller-manager kube-scheduler | kubelet kube-proxy",
		"10.0.0.4":    " |  | nginx-proxy service-sidekick kubelet kube-proxy",
	} {
		var planes []string
		for _, role := range []string{config.RoleEtcd, config.RoleControlPlane, config.RoleWorker} {
			var names []string
			for _, c := range all[address].Plane(role) {
				names = append(names, c.Name)
			}
			planes = append(planes, strings.Join(names, " "))
		}
		if got := strings.Join(planes, " | "); got != want {
			t.Errorf("%s: %s; want %s", address, got, want)
		}
	}
}

// own flags of a component, by name.
func own(c Container) map[string]string {
	all := map[string]string{}
	for _, word := range slices.Concat(c.Command, c.Args) {
		if key, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(key, "--") {
			all[strings.TrimPrefix(key, "--")] = value
		}
	}
	return all
}

func TestWhoHasTheLastWord(t *testing.T) {
	yes := true
	for _, c := range []struct {
		what, version, component string
		change                   func(*config.Cluster)
		flag, want               string // want - is a flag that is not there
	}{
		{"the version data delete", minors[0], Kubelet, func(c *config.Cluster) {}, "enforce-node-allocatable", "-"},
		{"the version data set", minors[0], Kubelet, func(c *config.Cluster) {}, "network-plugin", "cni"},
		{"extra_args beat them", minors[0], Kubelet, func(c *config.Cluster) { c.Services.Kubelet.ExtraArgs = map[string]string{"v": "6"} }, "v", "6"},
		{"extra_args add", minors[0], Scheduler, func(c *config.Cluster) { c.Services.Scheduler.ExtraArgs = map[string]string{"x": "y"} }, "x", "y"},
		{"extra_args beat computed ones", minors[2], KubeAPIServer, func(c *config.Cluster) {
			c.Services.KubeAPI.ExtraArgs = map[string]string{"advertise-address": "1.2.3.4"}
		}, "advertise-address", "1.2.3.4"},
		{"but not the DNS of the node", minors[2], Kubelet, func(c *config.Cluster) {
			c.Services.Kubelet.ExtraArgs = map[string]string{"cluster-dns": "1.1.1.1"}
			c.DNS = &config.DNS{NodeLocal: &config.NodeLocal{IPAddress: "169.254.20.10"}}
		}, "cluster-dns", "169.254.20.10"},
		{"plugins are added to the data's", minors[2], KubeAPIServer, func(c *config.Cluster) {
			c.Services.KubeAPI.AlwaysPullImages, c.Services.KubeAPI.EventRateLimit = true, &config.EventRateLimit{Enabled: true}
		}, "enable-admission-plugins", "NamespaceLifecycle,LimitRanger,ServiceAccount,DefaultStorageClass,DefaultTolerationSeconds,MutatingAdmissionWebhook," +
			"ValidatingAdmissionWebhook,ResourceQuota,NodeRestriction,Priority,TaintNodesByCondition,PersistentVolumeClaimResize,AlwaysPullImages,EventRateLimit"},
		{"without RBAC", minors[2], KubeAPIServer, func(c *config.Cluster) { c.Authorization.Mode = "none" }, "authorization-mode", "-"},
		{"without an audit log", minors[2], KubeAPIServer, func(c *config.Cluster) { c.Services.KubeAPI.AuditLog.Enabled = false }, "audit-policy-file", "-"},
		{"no dockershim", minors[1], Kubelet, func(c *config.Cluster) {}, "container-runtime", "remote"},
		{"the flag is gone", minors[2], Kubelet, func(c *config.Cluster) {}, "container-runtime", "-"},
		{"dockershim", minors[0], Kubelet, func(c *config.Cluster) {}, "container-runtime-endpoint", "-"},
		{"cri-dockerd in place of dockershim", minors[0], Kubelet, func(c *config.Cluster) { c.EnableCRIDockerd = &yes }, "container-runtime-endpoint", "/var/run/dockershim.sock"},
		{"a webhook", minors[2], KubeAPIServer, func(c *config.Cluster) {
			c.Authentication.Webhook = &config.Webhook{ConfigFile: "x", CacheTimeout: "7s"}
		}, "authentication-token-webhook-cache-ttl", "7s"},
		{"serving certificates", minors[2], Kubelet, func(c *config.Cluster) { c.Services.Kubelet.GenerateServingCertificate = true }, "tls-private-key-file", ssl + "kube-kubelet-10-0-0-1-key.pem"},
		{"and who checks them", minors[2], KubeAPIServer, func(c *config.Cluster) { c.Services.Kubelet.GenerateServingCertificate = true }, "kubelet-certificate-authority", ssl + "kube-ca.pem"},
		{"a cloud", minors[2], KubeProxy, func(c *config.Cluster) { c.CloudProvider.Name = "azure" }, "bind-address", "10.0.0.1"},
		{"a cloud's file", minors[2], ControllerManager, func(c *config.Cluster) { c.CloudProvider.Name = "azure" }, "cloud-config", "/etc/kubernetes/cloud-config"},
		{"an external cloud", minors[2], Kubelet, func(c *config.Cluster) { c.CloudProvider.Name = "external-aws" }, "cloud-provider", "external"},
		{"a cloud that names nodes", minors[2], Kubelet, func(c *config.Cluster) {
			c.CloudProvider.Name, c.CloudProvider.UseInstanceMetadataHostname = "external-aws", &yes
		}, "hostname-override", "-"},
		{"an etcd of somebody else's", minors[2], KubeAPIServer, func(c *config.Cluster) {
			c.Services.Etcd.ExternalURLs, c.Services.Etcd.Path = []string{"https://a:2379", "https://b:2379"}, "/mine"
		}, "etcd-servers", "https://a:2379,https://b:2379"},
		{"with its own certificates", minors[2], KubeAPIServer, func(c *config.Cluster) { c.Services.Etcd.ExternalURLs = []string{"https://a:2379"} }, "etcd-cafile", ssl + "kube-etcd-client-ca.pem"},
		{"an old etcd", minors[2], Etcd, func(c *config.Cluster) { c.SystemImages.Etcd = "e:v3.4.3-rancher1" }, "advertise-client-urls", "https://10.0.0.1:2379,https://10.0.0.1:4001"},
		{"an old etcd has all ciphers", minors[2], Etcd, func(c *config.Cluster) { c.SystemImages.Etcd = "e:v3.4.14-rancher1" }, "cipher-suites", "-"},
	} {
		got, ok := own(container(t, c.version, "10.0.0.1", c.component, c.change))[c.flag]
		if !ok {
			got = "-"
		}
		if got != c.want {
			t.Errorf("%s: --%s is %s, want %s", c.what, c.flag, got, c.want)
		}
	}
}

func TestFlagsThatRepeat(t *testing.T) {
	c := container(t, minors[2], "10.0.0.4", KubeProxy, func(c *config.Cluster) {
		c.Services.KubeProxy.ExtraArgsArray = map[string][]string{"x": {"2", "1"}, "a": {"3"}}
	})
	if got := strings.Join(c.Command[len(c.Command)-4:], " "); got != "--v=2 --a=3 --x=2 --x=1" {
		t.Error(got)
	}
}

func TestRolesOfKubelets(t *testing.T) {
	all := hosts(t, input(t, minors[2]))
	for address, want := range map[string]string{
		"10.0.0.1": "", "203.0.113.2": "", "10.0.0.4": "",
		"10.0.0.3": "node-role.kubernetes.io/controlplane=true:NoSchedule", "10.0.0.5": "node-role.kubernetes.io/controlplane=true:NoSchedule",
	} {
		if got := own(find(t, all[address], Kubelet))["register-with-taints"]; got != want {
			t.Errorf("%s registers with %q", address, got)
		}
	}
	if got := own(find(t, all["203.0.113.2"], Kubelet))["node-ip"]; got != "10.0.0.2" {
		t.Errorf("--node-ip=%s", got)
	}
	etcd := own(find(t, all["203.0.113.2"], Etcd))
	if etcd["listen-client-urls"] != "https://10.0.0.2:2379" || etcd["cert-file"] != ssl+"kube-etcd-10-0-0-2.pem" {
		t.Error("an etcd with an address of its own listens on", etcd["listen-client-urls"], etcd["cert-file"])
	}
	if got := own(find(t, all["10.0.0.5"], KubeAPIServer))["etcd-servers"]; got != "https://10.0.0.5:2379,https://10.0.0.1:2379,https://10.0.0.2:2379" {
		t.Error("the own etcd is not first:", got)
	}
}

func TestEnvironment(t *testing.T) {
	yes := true
	for _, c := range []struct {
		what, address, component string
		change                   func(*config.Cluster)
		want                     string
	}{
		{"defaults", "10.0.0.1", Kubelet, func(c *config.Cluster) {}, "RKE_KUBELET_CRIDOCKERD=true"},
		{"all of it", "10.0.0.1", Kubelet, func(c *config.Cluster) {
			c.Services.Kubelet.ExtraEnv = []string{"A=1", "A=1"}
			c.CRIDockerdStreamServerAddress, c.CRIDockerdStreamServerPort = "127.0.0.2", "10011"
			c.Services.KubeController.ClusterCIDR = "10.42.0.0/16,fd00::/56"
			c.CloudProvider = config.CloudProvider{Name: "custom", Custom: "x"}
			c.PrivateRegistries = []config.PrivateRegistry{{URL: "registry.example", User: "user1", Password: "passw~rd"}}
			c.PrefixPath, c.EnableCRIDockerd = "/opt/rke", &yes
		}, "A=1 RKE_KUBELET_CRIDOCKERD=true CRIDOCKERD_STREAM_SERVER_ADDRESS=127.0.0.2 CRIDOCKERD_STREAM_SERVER_PORT=10011 RKE_KUBELET_CRIDOCKERD_DUALSTACK=true " +
			"RKE_CLOUD_CONFIG_CHECKSUM=9dd4e461268c8034f5c8564e155c67a6 " +
			"RKE_KUBELET_DOCKER_CONFIG=eyJhdXRocyI6eyJyZWdpc3RyeS5leGFtcGxlIjp7ImF1dGgiOiJkWE5sY2pFNmNHRnpjM2QrY21RPSJ9fX0= RKE_KUBELET_DOCKER_FILE=/opt/rke/var/lib/kubelet/config.json"},
		{"etcd", "203.0.113.2", Etcd, func(c *config.Cluster) { c.Services.Etcd.ExtraEnv = []string{"B=2"} },
			"ETCDCTL_API=3 ETCDCTL_CACERT=" + ssl + "kube-ca.pem ETCDCTL_CERT=" + ssl + "kube-etcd-10-0-0-2.pem ETCDCTL_KEY=" + ssl + "kube-etcd-10-0-0-2-key.pem " +
				"ETCDCTL_ENDPOINTS=https://10.0.0.2:2379 ETCD_UNSUPPORTED_ARCH=x86_64 B=2"},
		{"the API server", "10.0.0.1", KubeAPIServer, func(c *config.Cluster) { c.Services.KubeAPI.ExtraEnv = []string{"C=3"} },
			"RKE_ADMISSION_CONFIG_CHECKSUM=69ff71a7958fe5108686fd89fcbff80d RKE_AUDITLOG_CONFIG_CHECKSUM=856f426399fb14a50b78e721d15c168c C=3"},
		{"the controller manager", "10.0.0.1", ControllerManager, func(c *config.Cluster) {
			c.Services.KubeController.ExtraEnv, c.CloudProvider.Name = []string{"D=4"}, "whatever"
		}, "D=4 RKE_CLOUD_CONFIG_CHECKSUM=d41d8cd98f00b204e9800998ecf8427e"},
		{"the proxy", "10.0.0.4", NginxProxy, func(c *config.Cluster) {}, "CP_HOSTS=10.0.0.1,10.0.0.3,10.0.0.5"},
	} {
		if got := strings.Join(container(t, minors[2], c.address, c.component, c.change).Env, " "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.what, got, c.want)
		}
	}
	in := input(t, minors[2])
	arm := facts()
	arm.Architecture = "aarch64"
	in.Hosts["10.0.0.1"] = arm
	if env := find(t, hosts(t, in)["10.0.0.1"], Etcd).Env; !slices.Contains(env, "ETCD_UNSUPPORTED_ARCH=arm64") {
		t.Error(env)
	}
}

func TestPrefix(t *testing.T) {
	for system, want := range map[string]string{
		"Debian GNU/Linux 12": "/", "Boot2Docker 19.03": "/mnt/sda1/rke", "RancherOS v1.5": "/opt/rke", "Container Linux by CoreOS": "/opt/rke", "Flatcar Container Linux by Kinvolk": "/opt/rke",
	} {
		if got := Prefix(&config.Cluster{PrefixPath: "/"}, Facts{OperatingSystem: system}); got != want {
			t.Errorf("%s: %s", system, got)
		}
		if got := Prefix(&config.Cluster{PrefixPath: "/data"}, Facts{OperatingSystem: system}); got != "/data" {
			t.Errorf("%s with a prefix of the config: %s", system, got)
		}
	}
	in := input(t, minors[2], func(c *config.Cluster) { c.PrefixPath = "/data" })
	h := hosts(t, in)["10.0.0.1"]
	kubelet := find(t, h, Kubelet)
	for _, bind := range []string{"/data/etc/kubernetes:/etc/kubernetes", "/data/var/lib/kubelet:/data/var/lib/kubelet:shared",
		"/var/lib/kubelet/volumeplugins:/var/lib/kubelet/volumeplugins:shared", "/etc/cni:/etc/cni:rw"} {
		if !slices.Contains(kubelet.Binds, bind) {
			t.Errorf("the kubelet has no bind %s", bind)
		}
	}
	if own(kubelet)["root-dir"] != "/data/var/lib/kubelet" || h.Files[0].Path != "/data/etc/kubernetes/admission.yaml" {
		t.Error(own(kubelet)["root-dir"], h.Files[0].Path)
	}
}

func TestSELinux(t *testing.T) {
	labeled := func(version string) map[string]string {
		in := input(t, version)
		for address, f := range in.Hosts {
			f.SecurityOptions = []string{"name=seccomp,profile=default", "name=selinux"}
			in.Hosts[address] = f
		}
		got := map[string]string{}
		for _, h := range hosts(t, in) {
			for _, c := range h.Containers {
				got[c.Name] = strings.Join(c.SecurityOpt, " ")
			}
		}
		return got
	}
	level, kind := "label=level:s0:c1000,c1001", "label=type:rke_container_t"
	both := level + " " + kind
	want := map[string]string{
		Sidekick: both, KubeAPIServer: both, ControllerManager: both, Scheduler: both, Etcd: kind, RollingSnapshots: kind, NginxProxy: kind, Kubelet: "", KubeProxy: "",
	}
	if diff := cmp.Diff(want, labeled(minors[2])); diff != "" {
		t.Error(diff)
	}
	if !(Facts{SecurityOptions: []string{"selinux"}}).SELinux() || facts().SELinux() {
		t.Error("SELinux is not seen as Docker says it")
	}
}

// Before 1.22 Docker labels what is bound, by a suffix, instead.
func TestSuffixesBefore122(t *testing.T) {
	in := input(t, minors[0], func(c *config.Cluster) { c.KubernetesVersion = "v1.21.14-rancher1-1" })
	in.Config.SystemImages.Kubernetes = "rancher/hyperkube:v1.23.17-rancher1" // the data have no flags for 1.21
	h := hosts(t, in)["10.0.0.1"]
	for name, bind := range map[string]string{Etcd: "/var/lib/etcd:/var/lib/rancher/etcd/:z", Kubelet: "/var/lib/kubelet:/var/lib/kubelet:shared,z", Scheduler: "/etc/kubernetes:/etc/kubernetes:z"} {
		if c := find(t, h, name); !slices.Contains(c.Binds, bind) {
			t.Errorf("%s has the binds %v", name, c.Binds)
		}
	}
	if _, ok := own(find(t, h, Scheduler))["authentication-kubeconfig"]; ok {
		t.Error("the scheduler has a flag of 1.22")
	}
}

func TestHealth(t *testing.T) {
	for image, want := range map[string]string{
		"rancher/hyperkube:v1.21.1-rancher1": "http://localhost:10252/healthz http://localhost:10251/healthz",
		"rancher/hyperkube:v1.22.1-rancher1": "https://localhost:10257/healthz http://localhost:10251/healthz",
		"rancher/hyperkube:v1.23.1-rancher1": "https://localhost:10257/healthz https://localhost:10259/healthz",
		"own/kubernetes":                     "https://localhost:10257/healthz https://localhost:10259/healthz",
	} {
		in := input(t, minors[0], func(c *config.Cluster) { c.SystemImages.Kubernetes = image })
		p := &Plan{Input: in, config: in.Config}
		p.version, p.image = parsed(t, in.Config.KubernetesVersion), imageVersion(in.Config, parsed(t, in.Config.KubernetesVersion))
		o := host{Plan: p, node: &in.Config.Nodes[0]}
		if got := o.controllerManager().HealthCheck.URL + " " + o.scheduler().HealthCheck.URL; got != want {
			t.Errorf("%s: %s", image, got)
		}
	}
}

func parsed(t *testing.T, text string) versions.Version {
	t.Helper()
	v, ok := versions.Parse(text)
	if !ok {
		t.Fatal(text)
	}
	return v
}

func TestSnapshots(t *testing.T) {
	no := false
	with := func(change func(*config.Etcd)) Container {
		return container(t, minors[2], "203.0.113.2", RollingSnapshots, func(c *config.Cluster) { change(&c.Services.Etcd) })
	}
	c := with(func(e *config.Etcd) {})
	if c.Image != "rancher/rke-tools:v0.1.108" { // the newest known, not the version's own v0.1.103
		t.Error("image", c.Image)
	}
	want := "/opt/rke-tools/rke-etcd-backup etcd-backup save --cacert " + ssl + "kube-ca.pem --cert " + ssl + "kube-node.pem --key " + ssl + "kube-node-key.pem" +
		" --name etcd-rolling-snapshots --endpoints=10.0.0.2:2379"
	if got := strings.Join(c.Args, " "); got != want+" --retention=72h --creation=12h" {
		t.Error(got)
	}
	if got := strings.Join(c.Binds, " "); got != "/opt/rke/etcd-snapshots/:/backup /etc/kubernetes:/etc/kubernetes" {
		t.Error(got)
	}
	c = with(func(e *config.Etcd) {
		e.BackupConfig = &config.BackupConfig{IntervalHours: 2, Retention: 5, S3: &config.S3Backup{
			AccessKey: "key", SecretKey: "hunter2", BucketName: "b", Region: "r", Endpoint: "s3.example", CustomCA: "PEM", Folder: "f",
		}}
	})
	if got := strings.Join(c.Args, " "); got != want+" --creation=2h --retention=10h --s3-backup=true --s3-endpoint=s3.example --s3-bucketName=b --s3-region=r --s3-endpoint-ca=UEVN --s3-folder=f" {
		t.Error(got)
	}
	if got := strings.Join(c.Env, " "); got != "S3_ACCESS_KEY=a2V5 S3_SECRET_KEY=aHVudGVyMg==" {
		t.Error(got)
	}
	for _, h := range hosts(t, input(t, minors[2], func(c *config.Cluster) { c.Services.Etcd.Snapshot = &no })) {
		if slices.ContainsFunc(h.Containers, func(c Container) bool { return c.Name == RollingSnapshots }) {
			t.Errorf("%s takes snapshots that nobody wants", h.Name)
		}
	}
}

func TestEtcdUserAndMembers(t *testing.T) {
	in := input(t, minors[2], func(c *config.Cluster) { c.Services.Etcd.UID, c.Services.Etcd.GID = 1001, 1002 })
	in.Joining, in.Members = true, []string{"10.0.0.1", "10.0.0.5"}
	c := find(t, hosts(t, in)["10.0.0.5"], Etcd)
	if c.User != "1001:1002" {
		t.Error("user", c.User)
	}
	f := own(c)
	if f["initial-cluster-state"] != "existing" || f["initial-cluster"] != "etcd-all=https://10.0.0.1:2380,etcd-both=https://10.0.0.5:2380" {
		t.Error(f["initial-cluster-state"], f["initial-cluster"])
	}
}

func TestIPv6(t *testing.T) {
	in := input(t, minors[2], func(c *config.Cluster) {
		c.Nodes = []config.Node{{Address: "fd00::1", HostnameOverride: "six", Role: []string{config.RoleEtcd, config.RoleControlPlane, config.RoleWorker}}}
	})
	h := hosts(t, in)["fd00::1"]
	f := own(find(t, h, Etcd))
	if f["initial-cluster"] != "etcd-six=https://[fd00::1]:2380" || f["cert-file"] != ssl+"kube-etcd-fd00--1.pem" {
		t.Error(f["initial-cluster"], f["cert-file"])
	}
	if got := own(find(t, h, KubeAPIServer))["etcd-servers"]; got != "https://[fd00::1]:2379" {
		t.Error(got)
	}
}

func TestLogins(t *testing.T) {
	in := input(t, minors[2], func(c *config.Cluster) {
		c.PrivateRegistries = []config.PrivateRegistry{{URL: "repo.com", User: "u1", Password: "p1"}, {URL: "repo.com/foo/bar", User: "u2", Password: "p2"}, {User: "hub", Password: "p3"}}
		c.SystemImages.Kubernetes, c.SystemImages.Etcd = "repo.com/rancher/hyperkube:v1.30.5-rancher1", "repo.com/foo/bar/rancher/etcd:v3.5.12"
		c.SystemImages.NginxProxy = "other.com/rancher/rke-tools:v1"
	})
	h := hosts(t, in)
	for _, c := range []struct{ address, name, want string }{
		{"10.0.0.1", Kubelet, "eyJ1c2VybmFtZSI6InUxIiwicGFzc3dvcmQiOiJwMSJ9"},      // u1, p1
		{"10.0.0.1", Etcd, "eyJ1c2VybmFtZSI6InUyIiwicGFzc3dvcmQiOiJwMiJ9"},         // u2, p2
		{"10.0.0.1", Sidekick, "eyJ1c2VybmFtZSI6Imh1YiIsInBhc3N3b3JkIjoicDMifQ=="}, // of docker.io
		{"10.0.0.4", NginxProxy, ""},
	} {
		if got := find(t, h[c.address], c.name).ImageRegistryAuthConfig; got != c.want {
			t.Errorf("login for %s is %s", c.name, got)
		}
	}
}

// The kubelet reads standard base64 alone, and asks a helper for the passwords of ECR.
func TestLoginsOfTheKubelet(t *testing.T) {
	const aws = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
	env := container(t, minors[2], "10.0.0.4", Kubelet, func(c *config.Cluster) {
		c.PrivateRegistries = []config.PrivateRegistry{
			{URL: "repo.example/team", User: "robot$team", Password: "a?>~~?>>b"}, // base64 with "/" and "+" in it
			{URL: aws, ECRCredentialPlugin: &config.ECRCredentialPlugin{AccessKeyID: "AKIA", SecretAccessKey: "hush"}},
			{User: "hub", Password: "p3"},
		}
	}).Env
	i := slices.IndexFunc(env, func(e string) bool { return strings.HasPrefix(e, "RKE_KUBELET_DOCKER_CONFIG=") })
	if i < 0 {
		t.Fatal("the kubelet is given no logins")
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(env[i], "RKE_KUBELET_DOCKER_CONFIG="))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"auths":{"docker.io":{"auth":"aHViOnAz"},"repo.example/team":{"auth":"cm9ib3QkdGVhbTphPz5+fj8+PmI="}},"credHelpers":{"` + aws + `":"ecr-login"}}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
}

// A login of ECR is for pulls alone: it ends after hours, and the kubelet has a helper.
func TestLoginsOfECR(t *testing.T) {
	const aws = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
	in := input(t, minors[2], func(c *config.Cluster) {
		c.PrivateRegistries = []config.PrivateRegistry{{URL: aws, IsDefault: true, ECRCredentialPlugin: &config.ECRCredentialPlugin{AccessKeyID: "AKIA", SecretAccessKey: "hush"}}}
		c.SystemImages.Kubernetes = aws + "/rancher/hyperkube:v1.30.5-rancher1"
	})
	without := find(t, hosts(t, in)["10.0.0.4"], Kubelet)
	in.Registries = slices.Clone(in.Config.PrivateRegistries)
	in.Registries[0].User, in.Registries[0].Password = "AWS", "for twelve hours"
	with := find(t, hosts(t, in)["10.0.0.4"], Kubelet)
	if without.ImageRegistryAuthConfig != "" || with.ImageRegistryAuthConfig != "eyJ1c2VybmFtZSI6IkFXUyIsInBhc3N3b3JkIjoiZm9yIHR3ZWx2ZSBob3VycyJ9" {
		t.Errorf("pulls log in with %q, and before with %q", with.ImageRegistryAuthConfig, without.ImageRegistryAuthConfig)
	}
	with.ImageRegistryAuthConfig = ""
	if diff := cmp.Diff(without, with); diff != "" {
		t.Errorf("the container is another: %s", diff)
	}
}

// Pod security policies have ended with 1.25; those of a cluster of the rke CLI 1.4 are kept until then.
func TestPodSecurityPolicies(t *testing.T) {
	for i, version := range minors {
		f := own(container(t, version, "10.0.0.1", KubeAPIServer, func(c *config.Cluster) { c.Services.KubeAPI.PodSecurityPolicy = true }))
		plugin := strings.HasSuffix(f["enable-admission-plugins"], ",PodSecurityPolicy")
		if has := i < 2; plugin != has || (f["runtime-config"] == "policy/v1beta1/podsecuritypolicy=true") != has {
			t.Errorf("%s: %s, %s", version, f["enable-admission-plugins"], f["runtime-config"])
		}
	}
}

func TestFiles(t *testing.T) {
	in := input(t, minors[2], func(c *config.Cluster) {
		c.CloudProvider = config.CloudProvider{Name: "custom", Custom: "cloud"}
		c.Authentication.Webhook = &config.Webhook{ConfigFile: "\nwebhook"}
	})
	in.Encryption = "encryption"
	paths := func(h Host) (all []string) {
		for _, f := range h.Files {
			all = append(all, f.Path+" "+strconv.FormatUint(uint64(f.Mode), 8))
		}
		return all
	}
	h := hosts(t, in)
	want := []string{"/etc/kubernetes/cloud-config 600", "/etc/kubernetes/kube-api-authn-webhook.yaml 600"}
	if diff := cmp.Diff(want, paths(h["10.0.0.4"])); diff != "" {
		t.Error("worker", diff)
	}
	want = append(want, "/etc/kubernetes/ssl/encryption.yaml 600", "/etc/kubernetes/admission.yaml 600", "/etc/kubernetes/audit-policy.yaml 600")
	if diff := cmp.Diff(want, paths(h["10.0.0.3"])); diff != "" {
		t.Error("control plane", diff)
	}
	for i, content := range []string{"cloud\n", "\nwebhook\n", "encryption\n"} {
		if got := h["10.0.0.3"].Files[i].Content; got != content {
			t.Errorf("%s is %q", h["10.0.0.3"].Files[i].Path, got)
		}
	}
	if f := own(find(t, h["10.0.0.3"], KubeAPIServer)); f["encryption-provider-config"] != "/etc/kubernetes/ssl/encryption.yaml" {
		t.Error("the API server does not know of encryption")
	}
	in = input(t, minors[2], func(c *config.Cluster) {
		c.CloudProvider.Name = "empty"
		c.Services.KubeAPI.ExtraArgs = map[string]string{"admission-control-config-file": "/mine", "audit-policy-file": "/mine"}
	})
	h = hosts(t, in)
	if diff := cmp.Diff([]File{{Path: "/etc/kubernetes/cloud-config", Mode: 0o600}}, h["10.0.0.3"].Files); diff != "" {
		t.Error("an empty cloud config is a file that should not exist, and files of the owner's are the owner's:", diff)
	}
	if env := find(t, h["10.0.0.3"], KubeAPIServer).Env; slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "RKE_ADMISSION") }) {
		t.Error("a checksum of a file that is not ours", env)
	}
}

func TestImagesOfAHost(t *testing.T) {
	h := hosts(t, input(t, minors[2]))["10.0.0.4"]
	want := []string{"rancher/hyperkube:v1.30.5-rancher1", "rancher/mirrored-pause:3.7", "rancher/rke-tools:v0.1.103"}
	if diff := cmp.Diff(want, h.Images); diff != "" {
		t.Error(diff)
	}
}

func TestRefused(t *testing.T) {
	for says, change := range map[string]func(*Input){
		`kubernetes_version "latest" is not a version`: func(in *Input) { in.Config.KubernetesVersion = "latest" },
		"system_images.etcd: is empty":                 func(in *Input) { in.Config.SystemImages.Etcd = "" },
		"have no flags for Kubernetes v1.7.0-rancher1-1": func(in *Input) {
			in.Config.KubernetesVersion, in.Config.SystemImages.Kubernetes = "v1.7.0-rancher1-1", "own"
		},
		"host 10.9.9.9: is not one of the config's nodes":   func(in *Input) { in.Hosts["10.9.9.9"] = facts() },
		"host 10.0.0.4: runs windows":                       func(in *Input) { in.Hosts["10.0.0.4"] = Facts{OSType: "windows"} },
		"host 10.0.0.4: Docker does not say where its root": func(in *Input) { in.Hosts["10.0.0.4"] = Facts{OSType: "linux"} },
	} {
		in := input(t, minors[2])
		change(&in)
		if _, err := Cluster(in); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %q in it", err, says)
		}
	}
	in := input(t, minors[2])
	delete(in.Hosts, "10.0.0.1") // not reached: nothing for it, and the others know it still
	h := hosts(t, in)
	if _, there := h["10.0.0.1"]; there || own(find(t, h["10.0.0.3"], KubeAPIServer))["etcd-servers"] != "https://10.0.0.1:2379,https://10.0.0.2:2379,https://10.0.0.5:2379" {
		t.Error("a host that is away changes the others")
	}
	p, err := New(in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Host("10.0.0.1"); err == nil || !strings.Contains(err.Error(), "nothing is known of its Docker") {
		t.Error(err)
	}
}

// Properties of all that is made, whatever the config.
func TestProperties(t *testing.T) {
	rich := func(c *config.Cluster) {
		c.PrivateRegistries = []config.PrivateRegistry{{URL: "registry.example", User: "me", Password: "hunter2"}}
		c.CloudProvider = config.CloudProvider{Name: "openstack", OpenStack: &clouds.OpenStack{Global: clouds.OpenStackGlobal{Password: "hunter2"}}}
		c.Authentication.Webhook = &config.Webhook{ConfigFile: "token: hunter2", CacheTimeout: "5s"}
		c.Services.KubeAPI.ExtraArgs = map[string]string{"z": "1", "a": "2"}
		c.Services.KubeAPI.ExtraBinds = []string{"/etc/kubernetes:/etc/kubernetes", "/x:/y"}
		c.Services.Etcd.Key = "hunter2"
	}
	for _, version := range minors {
		in := input(t, version, rich)
		in.Encryption = "secret: hunter2"
		first := hosts(t, in)
		for range 2 {
			if diff := cmp.Diff(first, hosts(t, in)); diff != "" {
				t.Fatal("the same input makes something else:", diff)
			}
		}
		for _, h := range first {
			for _, c := range h.Containers {
				var flags []string // by their names
				for _, word := range slices.Concat(c.Command, c.Args) {
					if key, _, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "--") && key != "--use-service-account-credentials" {
						flags = append(flags, key)
					}
				}
				if !slices.IsSorted(flags) && c.Name != RollingSnapshots {
					t.Errorf("%s: flags are not sorted: %v", c.Name, flags)
				}
				for _, list := range [][]string{c.Env, c.Binds, c.Command} {
					if len(once(slices.Clone(list))) != len(list) {
						t.Errorf("%s has something twice: %v", c.Name, list)
					}
				}
				for _, word := range slices.Concat(c.Command, c.Args, c.Env, c.Binds) {
					if strings.Contains(word, "hunter2") {
						t.Errorf("%s of %s shows a secret", c.Name, version)
					}
				}
			}
		}
	}
	// What the input holds is not changed.
	in := input(t, minors[2], rich)
	before := cmp.Diff(in.Config, input(t, minors[2], rich).Config)
	hosts(t, in)
	if diff := cmp.Diff(in.Config, input(t, minors[2], rich).Config); diff != before {
		t.Error("the config was changed:", diff)
	}
}

// A server gives the same processes to node agents, who check what they get.
func TestNodeAgentsTakeThem(t *testing.T) {
	for _, h := range hosts(t, input(t, minors[2])) {
		c := nodeconfig.NodeConfig{Processes: map[string]nodeconfig.Process{}}
		for _, one := range h.Containers {
			c.Processes[one.Name] = one.Process
		}
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := nodeconfig.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.Processes, got.Processes, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	}
}

func BenchmarkWanted500(b *testing.B) {
	in := input(b, minors[2])
	for i := range 500 {
		n := config.Node{Address: "10.1." + strconv.Itoa(i/250) + "." + strconv.Itoa(i%250), HostnameOverride: "w" + strconv.Itoa(i), Role: []string{config.RoleWorker}}
		in.Config.Nodes = append(in.Config.Nodes, n)
		in.Hosts[n.Address] = facts()
	}
	for b.Loop() {
		if all, err := Cluster(in); err != nil || len(all) != 505 {
			b.Fatal(len(all), err)
		}
	}
}

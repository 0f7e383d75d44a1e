// The table of keys: every setting of k3s server v1.34, and what the stand-in does with it.

package config

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

type kind int

const (
	text kind = iota
	boolean
	number
	list
)

// spec says how a setting is written and what it does. With neither set nor refuse it is accepted and does nothing.
type spec struct {
	kind   kind
	set    func(*Server, []string) error
	refuse string // why the stand-in cannot do it; a switch is refused only when it is on
}

func (k spec) check(s setting) error {
	if k.kind != list && (s.list || len(s.values) != 1) {
		return fmt.Errorf("one value was expected, found a list of %d", len(s.values))
	}
	switch k.kind {
	case boolean:
		if _, err := strconv.ParseBool(s.last()); err != nil {
			return fmt.Errorf("true or false was expected, found %q", s.last())
		}
	case number:
		if _, err := strconv.Atoi(s.last()); err != nil {
			return fmt.Errorf("a whole number was expected, found %q", s.last())
		}
	}
	return nil
}

func (k spec) apply(s *Server, name string, given setting) error {
	off := k.kind == boolean && !isTrue(given.values)
	switch {
	case k.refuse != "" && !off && given.last() != "":
		s.refused = append(s.refused, refusal{key: name, from: given.from, why: k.refuse})
	case k.set != nil:
		return k.set(s, given.values)
	case k.refuse == "":
		s.Inert = append(s.Inert, name)
	}
	return nil
}

const (
	noJoin   = "it runs a cluster of one server with all roles and cannot join another server"
	noRole   = "it runs a cluster of one server with all roles"
	noBackup = "it has no snapshots to restore"
	noOther  = "it stores everything in its embedded etcd"
)

// keys is the table. It is a function, not a variable, so that nobody can change it.
func keys() map[string]spec {
	t := map[string]spec{
		"token":                 textKey(func(s *Server) *string { return &s.Token }),
		"agent-token":           textKey(func(s *Server) *string { return &s.AgentToken }),
		"token-file":            fileKey(func(s *Server) *string { return &s.Token }),
		"agent-token-file":      fileKey(func(s *Server) *string { return &s.AgentToken }),
		"data-dir":              {set: setDataDir},
		"node-name":             textKey(func(s *Server) *string { return &s.NodeName }),
		"node-label":            listKey(func(s *Server) *[]string { return &s.NodeLabels }),
		"node-taint":            listKey(func(s *Server) *[]string { return &s.NodeTaints }),
		"node-ip":               addrKey(func(s *Server) *[]netip.Addr { return &s.NodeIPs }),
		"node-external-ip":      addrKey(func(s *Server) *[]netip.Addr { return &s.NodeExternalIPs }),
		"advertise-address":     {set: setAdvertise},
		"tls-san":               {kind: list, set: func(s *Server, v []string) error { s.TLSSANs = splitCommas(v); return nil }},
		"https-listen-port":     {kind: number, set: func(s *Server, v []string) (err error) { s.ListenPort, err = strconv.Atoi(v[0]); return err }},
		"cluster-cidr":          joinKey(func(s *Server) *string { return &s.ClusterCIDR }),
		"service-cidr":          joinKey(func(s *Server) *string { return &s.ServiceCIDR }),
		"cluster-dns":           joinKey(func(s *Server) *string { return &s.ClusterDNS }),
		"cluster-domain":        textKey(func(s *Server) *string { return &s.ClusterDomain }),
		"write-kubeconfig":      textKey(func(s *Server) *string { return &s.Kubeconfig }),
		"write-kubeconfig-mode": {set: func(s *Server, v []string) (err error) { s.KubeconfigMode, err = parseMode(v[0]); return err }},

		"service-node-port-range":     textKey(func(s *Server) *string { return &s.NodePortRange }),
		"kube-apiserver-arg":          argKey(func(s *Server) *[]string { return &s.APIServerArgs }),
		"kube-controller-manager-arg": argKey(func(s *Server) *[]string { return &s.ControllerManagerArgs }),
		"kube-scheduler-arg":          argKey(func(s *Server) *[]string { return &s.SchedulerArgs }),
		"kubelet-arg":                 argKey(func(s *Server) *[]string { return &s.KubeletArgs }),
		"etcd-arg":                    argKey(func(s *Server) *[]string { return &s.EtcdArgs }),

		"cluster-init":               boolKey(func(s *Server) *bool { return &s.ClusterInit }),
		"disable-controller-manager": boolKey(func(s *Server) *bool { return &s.DisableControllerManager }),
		"disable-scheduler":          boolKey(func(s *Server) *bool { return &s.DisableScheduler }),
		"disable-cloud-controller":   boolKey(func(s *Server) *bool { return &s.DisableCloudController }),
		"disable-agent":              boolKey(func(s *Server) *bool { return &s.DisableAgent }),
		"etcd-expose-metrics":        boolKey(func(s *Server) *bool { return &s.EtcdExposeMetrics }),

		"server":                     {refuse: noJoin},
		"disable-apiserver":          {kind: boolean, refuse: noRole},
		"disable-etcd":               {kind: boolean, refuse: noRole},
		"datastore-endpoint":         {refuse: noOther},
		"cluster-reset":              {kind: boolean, refuse: noBackup},
		"cluster-reset-restore-path": {refuse: noBackup},
		"with-node-id":               {kind: boolean, refuse: "it does not rename the node; set node-name"},
		"rootless":                   {kind: boolean, refuse: "it runs as root"},
	}
	for _, name := range inertBooleans() {
		t[name] = spec{kind: boolean}
	}
	for _, name := range inertTexts() {
		t[name] = spec{}
	}
	for _, name := range inertLists() {
		t[name] = spec{kind: list}
	}
	for _, name := range []string{"v", "etcd-snapshot-retention", "etcd-s3-retention", "lb-server-port"} {
		t[name] = spec{kind: number}
	}
	return t
}

func inertBooleans() []string {
	return []string{
		"alsologtostderr", "debug", "disable-apiserver-lb", "disable-default-registry-endpoint", "disable-helm-controller",
		"disable-kube-proxy", "disable-network-policy", "docker", "embedded-registry", "enable-pprof", "etcd-disable-snapshots",
		"etcd-s3", "etcd-s3-insecure", "etcd-s3-skip-ssl-verify", "etcd-snapshot-compress", "flannel-external-ip", "flannel-ipv6-masq",
		"kine-tls", "multi-cluster-cidr", "nonroot-devices", "prefer-bundled-bin", "protect-kernel-defaults", "secrets-encryption",
		"selinux", "servicelb", "supervisor-metrics", "tls-san-security",
	}
}

func inertTexts() []string {
	return []string{
		"airgap-extra-registry", "bind-address", "container-runtime-endpoint", "data-store-max-open-connections",
		"datastore-cafile", "datastore-certfile", "datastore-keyfile", "default-local-storage-path", "default-runtime",
		"egress-selector-mode", "etcd-s3-access-key", "etcd-s3-bucket", "etcd-s3-config-secret", "etcd-s3-endpoint", "etcd-s3-endpoint-ca",
		"etcd-s3-folder", "etcd-s3-proxy", "etcd-s3-region", "etcd-s3-secret-key", "etcd-s3-session-token", "etcd-s3-timeout",
		"etcd-snapshot-dir", "etcd-snapshot-name", "etcd-snapshot-schedule-cron", "flannel-backend", "flannel-cni-conf", "flannel-conf",
		"flannel-iface", "helm-job-image", "image-credential-provider-bin-dir", "image-credential-provider-config",
		"image-service-endpoint", "kube-controller-manager-image", "log", "node-internal-dns", "pause-image", "private-registry",
		"resolv-conf", "secrets-encryption-provider", "servicelb-namespace", "snapshotter", "system-default-registry",
		"vmodule", "vpn-auth", "vpn-auth-file", "write-kubeconfig-group",
	}
}

func inertLists() []string {
	return []string{
		"disable", "kube-cloud-controller-manager-arg", "kube-proxy-arg", "node-external-dns",
	}
}

func textKey(field func(*Server) *string) spec {
	return spec{set: func(s *Server, v []string) error { *field(s) = v[0]; return nil }}
}

// fileKey is the path of a file that holds the value.
func fileKey(field func(*Server) *string) spec {
	return spec{set: func(s *Server, v []string) error {
		f, err := os.Open(v[0])
		if err != nil {
			return err
		}
		defer f.Close()
		content, err := io.ReadAll(io.LimitReader(f, 4096))
		if err != nil {
			return err
		}
		*field(s) = strings.TrimSpace(string(content))
		return nil
	}}
}

func boolKey(field func(*Server) *bool) spec {
	return spec{kind: boolean, set: func(s *Server, v []string) error { *field(s) = isTrue(v); return nil }}
}

func listKey(field func(*Server) *[]string) spec {
	return spec{kind: list, set: func(s *Server, v []string) error { *field(s) = slices.Clone(v); return nil }}
}

func joinKey(field func(*Server) *string) spec {
	return spec{kind: list, set: func(s *Server, v []string) error { *field(s) = strings.Join(splitCommas(v), ","); return nil }}
}

// argKey is a list of arguments for a component, each "name=value", "name" alone meaning true.
func argKey(field func(*Server) *[]string) spec {
	return spec{kind: list, set: func(s *Server, v []string) error {
		for _, arg := range v {
			if name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "="); name == "" {
				return fmt.Errorf("%q is not an argument of the form name=value", arg)
			}
		}
		*field(s) = slices.Clone(v)
		return nil
	}}
}

func addrKey(field func(*Server) *[]netip.Addr) spec {
	return spec{kind: list, set: func(s *Server, v []string) error {
		var addrs []netip.Addr
		for _, item := range splitCommas(v) {
			addr, err := netip.ParseAddr(item)
			if err != nil {
				return fmt.Errorf("%q is not an IP address", item)
			}
			addrs = append(addrs, addr)
		}
		*field(s) = addrs
		return nil
	}}
}

func setAdvertise(s *Server, v []string) (err error) {
	if s.AdvertiseAddress, err = netip.ParseAddr(v[0]); err != nil {
		return fmt.Errorf("%q is not an IP address", v[0])
	}
	return nil
}

func setDataDir(s *Server, v []string) error {
	if !filepath.IsAbs(v[0]) {
		return fmt.Errorf("an absolute path was expected, found %q", v[0])
	}
	s.DataDir = filepath.Clean(v[0])
	return nil
}

func isTrue(v []string) bool {
	on, err := strconv.ParseBool(v[len(v)-1])
	return err == nil && on
}

func splitCommas(values []string) []string {
	var out []string
	for _, v := range values {
		for item := range strings.SplitSeq(v, ",") {
			if item = strings.TrimSpace(item); item != "" {
				out = append(out, item)
			}
		}
	}
	return out
}

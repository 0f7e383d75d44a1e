// Single values that Docker, a component or the API server would refuse once containers have been changed.

package check

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/plans/forms"
	"github.com/drover-project/drover/rke1/config"
)

// values looks at single values.
type values struct{ *checker }

// labels refuses what cannot be the labels of a node; the selector of an add-on has the same rules.
func (k values) labels(field string, labels map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		k.labelKey(field, key)
		k.labelValue(field, key, labels[key])
	}
}

func (k values) labelKey(field, key string) {
	k.refuse(field, key, forms.LabelKey(key))
}

func (k values) labelValue(field, key, value string) {
	if reason := forms.LabelValue(value); reason != "" {
		k.fail(field, "%q of %s %s", cut(value), cut(key), reason)
	}
}

func (k values) taints(i int) {
	first := map[[2]string]int{}
	for j, t := range k.c.Nodes[i].Taints {
		at := nodePath(i, fmt.Sprintf("taints[%d]", j))
		k.labelKey(at+".key", t.Key)
		k.labelValue(at+".value", t.Key, t.Value)
		k.oneOf(at+".effect", t.Effect, forms.Effects...)
		if before, twice := first[[2]string{t.Key, t.Effect}]; twice {
			k.fail(at, "%s with the effect %s is also taints[%d]; a node has it once", cut(t.Key), cut(t.Effect), before)
		} else {
			first[[2]string{t.Key, t.Effect}] = j
		}
		if t.Key == "node-role.kubernetes.io/etcd" || t.Key == "node-role.kubernetes.io/controlplane" {
			k.warn(at, "%s follows from the roles of a node; this one is ignored", t.Key)
		}
	}
}

// places looks at where the pods of add-ons may run.
func (k values) places() {
	c := k.c
	k.labels("network.node_selector", c.Network.NodeSelector)
	k.labels("ingress.node_selector", c.Ingress.NodeSelector)
	k.labels("monitoring.node_selector", c.Monitoring.NodeSelector)
	k.tolerations("network.tolerations", c.Network.Tolerations)
	k.tolerations("ingress.tolerations", c.Ingress.Tolerations)
	k.tolerations("monitoring.tolerations", c.Monitoring.Tolerations)
	if d := c.DNS; d != nil {
		k.labels("dns.node_selector", d.NodeSelector)
		k.tolerations("dns.tolerations", d.Tolerations)
		if d.NodeLocal != nil {
			k.labels("dns.nodelocal.node_selector", d.NodeLocal.NodeSelector)
		}
	}
	k.flags("ingress.extra_args", slices.Sorted(maps.Keys(c.Ingress.ExtraArgs)))
}

func (k values) tolerations(field string, all []config.Toleration) {
	for i, t := range all {
		at := fmt.Sprintf("%s[%d]", field, i)
		if t.Operator != "" {
			k.oneOf(at+".operator", t.Operator, "Exists", "Equal")
		}
		if t.Effect != "" {
			k.oneOf(at+".effect", t.Effect, forms.Effects...)
		}
		switch {
		case t.Key != "":
			k.labelKey(at+".key", t.Key)
		case t.Operator != "Exists":
			k.fail(at+".key", "is missing; a toleration of all keys has the operator Exists")
		}
		if t.Operator == "Exists" && t.Value != "" {
			k.fail(at+".value", "cannot be there with the operator Exists")
		}
	}
}

// components looks at what is given to the containers of the components.
func (k values) components() {
	s := &k.c.Services
	for _, one := range []struct {
		path string
		is   *config.Service
	}{
		{"services.etcd", &s.Etcd.Service}, {"services.kube-api", &s.KubeAPI.Service}, {"services.kube-controller", &s.KubeController.Service},
		{"services.scheduler", &s.Scheduler.Service}, {"services.kubelet", &s.Kubelet.Service}, {"services.kubeproxy", &s.KubeProxy.Service},
	} {
		k.flags(one.path+".extra_args", slices.Sorted(maps.Keys(one.is.ExtraArgs)))
		k.flags(one.path+".extra_args_array", slices.Sorted(maps.Keys(one.is.ExtraArgsArray)))
		k.flags(one.path+".win_extra_args", slices.Sorted(maps.Keys(one.is.WindowsExtraArgs)))
		k.flags(one.path+".win_extra_args_array", slices.Sorted(maps.Keys(one.is.WindowsExtraArgsArray)))
		for i, bind := range one.is.ExtraBinds {
			k.bind(fmt.Sprintf("%s.extra_binds[%d]", one.path, i), bind)
		}
		k.environment(one.path+".extra_env", one.is.ExtraEnv)
		k.environment(one.path+".win_extra_env", one.is.WindowsExtraEnv)
	}
	if ports := s.KubeAPI.ServiceNodePortRange; ports != "" {
		k.refuse("services.kube-api.service_node_port_range", ports, forms.PortRange(strings.TrimSpace(ports)))
	}
	if port := k.c.CRIDockerdStreamServerPort; port != "" {
		k.refuse("cri_dockerd_stream_server_port", port, forms.Port(port))
	}
	if b := k.c.BastionHost; b.Address != "" {
		k.host("bastion_host.address", b.Address)
		k.refuse("bastion_host.port", b.Port, forms.Port(b.Port))
	}
	if domain := s.Kubelet.ClusterDomain; domain != "" {
		k.refuse("services.kubelet.cluster_domain", domain, forms.Domain(domain))
	}
	for i, text := range s.Etcd.ExternalURLs {
		// A URL can have a password, so that it is not repeated.
		if u, err := url.Parse(text); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			k.fail(fmt.Sprintf("services.etcd.external_urls[%d]", i), "is not an address such as https://etcd.example.com:2379")
		}
	}
}

var flag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$`) })

// flags refuses names that are none of flags. Some write them with the dashes of a command line.
func (k values) flags(field string, names []string) {
	for _, name := range names {
		bare := strings.TrimLeft(name, "-")
		switch {
		case flag().MatchString(name):
		case flag().MatchString(bare):
			k.fail(field, "%q has the dashes of a command line, which are put before it; write %s", cut(name), bare)
		default:
			k.fail(field, "%q is not the name of a flag", cut(name))
		}
	}
}

var (
	volume    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
	mountMode = regexp.MustCompile(`^(ro|rw|z|Z|nocopy|r?shared|r?slave|r?private|consistent|cached|delegated)$`)
)

// bind refuses what Docker does not mount. One path alone would be a volume without a name, which goes with its container.
func (k values) bind(at, bind string) {
	parts := strings.Split(bind, ":")
	switch n := len(parts); {
	case n != 2 && n != 3, !path.IsAbs(parts[1]), path.Clean(parts[1]) == "/", !path.IsAbs(parts[0]) && !volume.MatchString(parts[0]):
		k.fail(at, "%q is not a bind of Docker, SOURCE:TARGET or SOURCE:TARGET:OPTIONS, such as /etc/pki:/etc/pki:ro", cut(bind))
	case n == 3:
		for option := range strings.SplitSeq(parts[2], ",") {
			if !mountMode.MatchString(option) {
				k.fail(at, "%q is not an option of a bind of Docker, such as ro, z, rshared", cut(option))
			}
		}
	}
}

// environment refuses what is no variable with a value: Docker leaves a name alone out, so that the container would be
// another one than the one asked for, and be made anew by each run. A value is not repeated, as it can be a password.
func (k values) environment(field string, all []string) {
	for i, one := range all {
		if name, _, ok := strings.Cut(one, "="); !ok || name == "" {
			k.fail(fmt.Sprintf("%s[%d]", field, i), "is not NAME=VALUE")
		}
	}
}

// durations looks at how long answers of a webhook are kept, and at when etcd-rolling-snapshots works, where there is no
// backup_config.
func (k values) durations() {
	if w := k.c.Authentication.Webhook; w != nil {
		if keep, err := time.ParseDuration(w.CacheTimeout); err != nil || keep != 0 { // 0 keeps none
			k.duration("authentication.webhook.cache_timeout", w.CacheTimeout)
		}
	}
	etcd := &k.c.Services.Etcd
	if etcd.BackupConfig != nil || etcd.Snapshot != nil && !*etcd.Snapshot || len(etcd.ExternalURLs) > 0 {
		return
	}
	creation := k.duration("services.etcd.creation", etcd.Creation)
	retention := k.duration("services.etcd.retention", etcd.Retention)
	if creation > retention && retention > 0 {
		k.warn("services.etcd.retention", "%s is less than creation, %s: a snapshot is deleted before there is another one", cut(etcd.Retention), cut(etcd.Creation))
	}
}

func (k values) duration(field, text string) time.Duration {
	d, reason := forms.Duration(text)
	k.refuse(field, text, reason)
	return d
}

// limits looks at the values of files of the API server.
func (k values) limits() {
	api := &k.c.Services.KubeAPI
	if a := api.AuditLog; a != nil && a.Configuration != nil {
		const field = "services.kube-api.audit_log.configuration"
		if a.Configuration.Format != "" {
			k.oneOf(field+".format", a.Configuration.Format, "json", "legacy")
		}
		if a.Configuration.Policy != nil {
			for i, rule := range a.Configuration.Policy.Rules {
				k.oneOf(fmt.Sprintf("%s.policy.rules[%d].level", field, i), rule.Level, "None", "Metadata", "Request", "RequestResponse")
			}
		}
	}
	if e := api.EventRateLimit; e != nil && e.Enabled && e.Configuration != nil {
		for i, l := range e.Configuration.Limits {
			at := fmt.Sprintf("services.kube-api.event_rate_limit.configuration.limits[%d]", i)
			k.oneOf(at+".type", l.Type, "Server", "Namespace", "User", "SourceAndObject")
			if l.QPS < 1 || l.Burst < 1 {
				k.fail(at, "qps and burst are numbers from 1 on")
			}
		}
	}
}

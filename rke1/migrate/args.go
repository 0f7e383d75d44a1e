// Flags, binds and environments that a user gave to the services, and what RKE2 takes of them.

package migrate

import (
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/config"
)

// service is where a service's extras go in RKE2: its settings for flags, binds and environment, "" for none.
type service struct {
	name           string
	config.Service // of RKE1
	arg, bind, env string
}

func (p *planner) services() []service {
	s := p.c.Services
	of := func(name string, c config.Service, component string) service {
		return service{name, c, component + "-arg", component + "-extra-mount", component + "-extra-env"}
	}
	// The kubelet is a process of the host: it sees every path, and has the environment of its unit.
	kubelet := service{"kubelet", s.Kubelet.Service, "kubelet-arg", "", ""}
	return []service{
		of("etcd", s.Etcd.Service, "etcd"), of("kube-api", s.KubeAPI.Service, "kube-apiserver"), of("kube-controller", s.KubeController.Service, "kube-controller-manager"),
		of("scheduler", s.Scheduler.Service, "kube-scheduler"), kubelet, of("kubeproxy", s.KubeProxy.Service, "kube-proxy"),
	}
}

// ended are flags that have no meaning with RKE2: of Docker, of its way to pods' networks, or gone from Kubernetes.
var ended = []string{
	"docker", "cni-", "network-plugin", "experimental-dockershim", "dockershim", "image-pull-progress-deadline", "container-runtime", "pod-infra-container-image",
	"non-masquerade-cidr", "cloud-provider", "cloud-config",
}

// kept are flags that RKE2 sets by itself; another value would break it.
var kept = []string{
	"data-dir", "listen-", "advertise-", "initial-", "cert-file", "key-file", "trusted-ca-file", "client-cert-auth", "peer-", "tls-cert-file", "tls-private-key-file", "client-ca-file",
	"etcd-", "service-account-", "kubelet-client-", "kubelet-certificate-authority", "proxy-client-", "requestheader-", "kubeconfig", "authentication-kubeconfig",
	"authorization-kubeconfig", "cluster-signing-", "root-ca-file", "encryption-provider-config", "bind-address", "secure-port", "root-dir", "cgroup-driver", "resolv-conf",
}

// usual are flags that every config has after its defaults.
var usual = map[string]string{"election-timeout": "5000", "heartbeat-interval": "500"}

func (p *planner) args() {
	for _, s := range p.services() {
		topic := "service " + s.name
		flags := slices.Concat(slices.Collect(maps.Keys(s.ExtraArgs)), slices.Collect(maps.Keys(s.ExtraArgsArray)))
		slices.Sort(flags)
		for _, flag := range slices.Compact(flags) {
			switch {
			case s.name == "etcd" && usual[flag] != "" && s.ExtraArgs[flag] == usual[flag]:
			case begins(flag, ended):
				p.without(topic, "flag --"+flag, "it is about Docker, or Kubernetes has it no more; leave it out")
			case begins(flag, kept):
				p.without(topic, "flag --"+flag, "RKE2 sets it by itself; leave it out, or look for a setting of RKE2's own")
			default:
				p.set(topic, "flag --"+flag, s.arg+": "+flag+"=…, if Kubernetes still has it", s.arg)
			}
		}
		p.extras(topic, s)
	}
}

func (p *planner) extras(topic string, s service) {
	if n := len(s.ExtraBinds); n > 0 {
		if s.bind == "" {
			p.add(Item{Topic: topic, Level: Same, Found: "binds " + strings.Join(s.ExtraBinds, ", "), Needs: "the kubelet is a process of the host and sees its paths"})
		} else {
			p.set(topic, "binds "+strings.Join(s.ExtraBinds, ", "), s.bind+" with the same", s.bind)
		}
	}
	if names := variables(s.ExtraEnv); names != "" {
		if s.env == "" {
			p.set(topic, "environment "+names, "the file /etc/default/rke2-server or rke2-agent of each host")
		} else {
			p.set(topic, "environment "+names, s.env+" with the same", s.env)
		}
	}
	if len(s.WindowsExtraArgs)+len(s.WindowsExtraArgsArray)+len(s.WindowsExtraBinds)+len(s.WindowsExtraEnv) > 0 {
		p.do(topic, "settings for hosts with Windows", "RKE2 installs such hosts in another way: see its documentation")
	}
}

// variables are the names of an environment; values may be secret.
func variables(env []string) string {
	var names []string
	for _, one := range env {
		name, _, _ := strings.Cut(one, "=")
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func begins(flag string, with []string) bool {
	return slices.ContainsFunc(with, func(prefix string) bool { return strings.HasPrefix(flag, prefix) })
}

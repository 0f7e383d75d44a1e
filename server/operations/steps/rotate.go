// The rotations of certificates and of the key that Secrets are encrypted with.

package steps

import "slices"

var (
	rotate = Step{
		Name: "rotate", Title: "renew the certificates of %s", Needs: Needs{Quorum: true}, Done: Done{Works: true}, OnFailure: OnFailure{Tries: 3},
		Job: renewing,
	}
	renew = Step{
		Name: "renew", Title: "renew the certificates of %s", Needs: Needs{Turn: Concurrent, Skip: true}, Done: Done{Works: true},
		OnFailure: OnFailure{Tries: 3, Continue: true}, Job: renewing,
	}
	keys = Step{
		Name: "keys", Title: "make a new key on %s and write all Secrets with it", OnFailure: OnFailure{Tries: 2},
		Job: func(_ *decider, id string, m Machine) (Job, error) { return just(m.Host.Keys(id)) },
	}
	restartKeys = Step{
		Name: "restart", Title: "restart %s with the new key", Needs: Needs{Quorum: true}, Done: Done{Works: true}, OnFailure: OnFailure{Tries: 5},
		Job: func(_ *decider, id string, m Machine) (Job, error) { return just(m.Host.Restart(id)) },
	}
)

func renewing(d *decider, id string, m Machine) (Job, error) {
	return just(m.Host.Certificates(id, d.request.Services))
}

// services are those whose certificates can be renewed by name. Source: k3s-io/k3s pkg/util/services.
var services = []string{
	"admin", "api-server", "auth-proxy", "cloud-controller", "controller-manager", "etcd", "k3s-controller", "k3s-server",
	"kube-proxy", "kubelet", "program-controller", "program-server", "rke2-controller", "rke2-server", "scheduler", "supervisor",
}

// concerned says whether a service has certificates on a machine; see section "certificate rotation" of Rancher's planner
// (rancher/rancher pkg/capr/planner/certificaterotation.go).
func concerned(m Machine, asked []string) bool {
	worker := []string{"rke2-server", "k3s-server", "api-server", "kubelet", "kube-proxy", "auth-proxy"}
	control := append([]string{"controller-manager", "scheduler", "rke2-controller", "k3s-controller", "admin", "cloud-controller", "supervisor", "program-server", "program-controller"}, worker...)
	etcd := []string{"etcd", "kubelet", "k3s-server", "rke2-server"}
	return len(asked) == 0 || slices.ContainsFunc(asked, func(s string) bool {
		return m.Roles.Worker && slices.Contains(worker, s) || m.Roles.ControlPlane && slices.Contains(control, s) || m.Roles.Etcd && slices.Contains(etcd, s)
	})
}

// rotateCertificates are the steps of a rotation of certificates.
func (p planning) rotateCertificates() ([]on, error) {
	concerns := func(all []Machine) []Machine {
		return slices.DeleteFunc(all, func(m Machine) bool { return !concerned(m, p.request.Services) })
	}
	return append(each(rotate, concerns(p.servers())...), each(renew, concerns(p.workers())...)...), nil
}

// rotateKeys are the steps of a rotation of the key: a machine of the control plane makes it, and restarts before others of those.
func (p planning) rotateKeys() ([]on, error) {
	leaders := append(p.with(func(m Machine) bool { return m.Roles.ControlPlane && m.Plan && m.Works && m.Connected }), p.with(func(m Machine) bool { return m.Roles.ControlPlane && m.Plan })...)
	if len(leaders) == 0 {
		return nil, nil
	}
	servers := p.servers()
	first := slices.IndexFunc(servers, func(m Machine) bool { return m.Roles.ControlPlane })
	others := slices.DeleteFunc(slices.Clone(servers[first:]), func(m Machine) bool { return m.Name == leaders[0].Name })
	return slices.Concat(each(keys, leaders[0]), each(restartKeys, servers[:first]...), each(restartKeys, leaders[0]), each(restartKeys, others...)), nil
}

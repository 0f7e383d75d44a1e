package desired

// Names are those of all containers that stay, in the order in which they start on a host with
// every role.
func Names() []string {
	return []string{Etcd, RollingSnapshots, Sidekick, KubeAPIServer, ControllerManager, Scheduler, NginxProxy, Kubelet, KubeProxy}
}

// Login is Docker's X-Registry-Auth for pulling an image; empty for one that needs none.
func (p *Plan) Login(image string) string { return p.login(image) }

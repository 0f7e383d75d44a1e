// Certificates and files on the hosts.

package engine

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/versions"
)

// kubernetesDir is the directory of everything that the engine writes on a host, below its prefix.
const kubernetesDir = "/etc/kubernetes"

// deployFiles writes what differs on every host.
func (r *run) deployFiles(ctx context.Context) error {
	r.line("certificates", "Deploying kubernetes certificates to Cluster nodes")
	if err := each(ctx, r.with(""), parallel, r.deployTo); err != nil {
		return err
	}
	r.line("certificates", "Successfully deployed kubernetes certificates to Cluster nodes")
	return nil
}

// directory is the host's /etc/kubernetes.
func (r *run) directory(h *host) onhost.Directory {
	where := path.Join(h.prefix, kubernetesDir)
	return onhost.Directory{OnHost: where, Path: where, Image: r.work.Config.SystemImages.Alpine, Auth: r.plan.Login(r.work.Config.SystemImages.Alpine)}
}

// filesOf are the files that a host should have.
func (r *run) filesOf(h *host) []onhost.File {
	var files []onhost.File
	for _, f := range pki.FilesFor(r.work.Config, h.node, h.prefix, r.bundle()) {
		files = append(files, onhost.File{Path: f.Path, Contents: f.Content, Mode: f.Mode, UID: f.UID, GID: f.GID})
	}
	for _, f := range h.desired.Files {
		if f.Content != "" {
			files = append(files, onhost.File{Path: f.Path, Contents: []byte(f.Content), Mode: f.Mode})
		}
	}
	return files
}

func (r *run) deployTo(ctx context.Context, h *host) error {
	var gone []string
	for _, f := range h.desired.Files {
		if f.Content == "" {
			gone = append(gone, f.Path)
		}
	}
	files := r.filesOf(h)
	changed, there, err := h.Put(ctx, r.directory(h), files)
	if err != nil {
		return err
	}
	for _, name := range changed {
		r.line("file-deploy", "Deploying file [%s] to node [%s]", name, h.node.Address)
	}
	h.written = there
	gone = slices.DeleteFunc(gone, func(name string) bool { _, is := there[name]; return !is })
	return r.removeFiles(ctx, h, gone)
}

// removeFiles takes files away that the config has no more.
func (r *run) removeFiles(ctx context.Context, h *host, names []string) error {
	if len(names) == 0 {
		return nil
	}
	dir := r.directory(h)
	_, err := h.Run(ctx, onhost.Once{Process: nodeconfig.Process{
		Name: "file-deployer", Image: dir.Image, ImageRegistryAuthConfig: dir.Auth, NetworkMode: "none", Binds: []string{dir.OnHost + ":" + dir.Path},
		Command: append([]string{"rm", "-f", "--"}, names...),
	}})
	if err != nil {
		return fmt.Errorf("remove files %s: %w", strings.Join(names, ", "), err)
	}
	return nil
}

// renewed says that a container runs with certificates that have been changed on its host
// since it started. What was deployed before is compared, too: files that another command wrote
// again as they were restart nothing.
func (r *run) renewed(h *host, c nodeconfig.Container) bool {
	newer := func(file string) bool {
		f, ok := h.written[path.Join(h.prefix, file)]
		return ok && !f.Changed.Before(c.Started.Truncate(time.Second))
	}
	if c.Name == desired.KubeAPIServer && r.encrypting() != r.before.Current.Encryption && newer(desired.EncryptionFile) {
		return true
	}
	for _, entry := range entriesOf(c.Name, h) {
		if !r.differs(entry) || r.rereads(c.Name, entry) {
			continue
		}
		for _, name := range []string{pki.Path(entry), pki.KeyPath(entry)} {
			if newer(name) {
				return true
			}
		}
	}
	return false
}

// differs says that a certificate is another than the one that was deployed.
func (r *run) differs(entry string) bool {
	before, now := r.before.Current.Certificates[entry], r.bundle()[entry]
	return before.CertificatePEM != now.CertificatePEM || before.KeyPEM != now.KeyPEM
}

// rereads says that a container takes the new certificate of an entry into use while it runs: API servers look at their own within a
// minute, from 1.18 on, and etcd at each connection. It has to have the same key, so that the one of before is as good until
// then; what is new in it are names of hosts.
func (r *run) rereads(container, entry string) bool {
	before, now := r.before.Current.Certificates[entry], r.bundle()[entry]
	if before.KeyPEM == "" || before.KeyPEM != now.KeyPEM {
		return false
	}
	switch container {
	case desired.KubeAPIServer:
		v, known := versions.Parse(r.work.Config.KubernetesVersion)
		return entry == pki.APIServer && known && v.AtLeast(1, 18)
	case desired.Etcd:
		return entry != pki.CA
	}
	return false
}

// entriesOf are the certificates that a container reads at its start.
func entriesOf(container string, h *host) []string {
	switch container {
	case desired.Etcd:
		return []string{pki.CA, pki.EtcdName(h.node)}
	case desired.KubeAPIServer:
		return []string{pki.CA, pki.APIServer, pki.ServiceAccount, pki.RequestHeaderCA, pki.ProxyClient, pki.Node, pki.EtcdClient, pki.EtcdClientCA}
	case desired.ControllerManager:
		return []string{pki.CA, pki.ControllerManager, pki.ServiceAccount}
	case desired.Scheduler:
		return []string{pki.Scheduler}
	case desired.Kubelet:
		return []string{pki.CA, pki.Node, pki.KubeletName(h.node)}
	case desired.KubeProxy:
		return []string{pki.Proxy}
	}
	return nil
}

// Certificates and files on the hosts.

package plane

import (
	"context"
	"path"
	"slices"
	"time"

	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/versions"
)

// DeployFiles writes what differs on every host. The errors name the hosts that could not be written to.
func DeployFiles(ctx context.Context, r *run.Run) error {
	r.Line("certificates", "Deploying kubernetes certificates to Cluster nodes")
	if err := run.Each(ctx, r.With(""), run.Parallel, r.On(DeployTo)); err != nil {
		return err
	}
	r.Line("certificates", "Successfully deployed kubernetes certificates to Cluster nodes")
	return nil
}

// FilesOf are the files that a host should have.
func FilesOf(r *run.Run, h *run.Host) []onhost.File {
	var files []onhost.File
	for _, f := range pki.FilesFor(r.Work.Config, h.Node, h.Prefix, r.Bundle()) {
		files = append(files, onhost.File{Path: f.Path, Contents: f.Content, Mode: f.Mode, UID: f.UID, GID: f.GID})
	}
	for _, f := range h.Desired.Files {
		if f.Content != "" {
			files = append(files, onhost.File{Path: f.Path, Contents: []byte(f.Content), Mode: f.Mode})
		}
	}
	return files
}

// DeployTo writes what differs on one host, and removes what the config has no more. The errors are those of the host.
func DeployTo(ctx context.Context, r *run.Run, h *run.Host) error {
	var gone []string
	for _, f := range h.Desired.Files {
		if f.Content == "" {
			gone = append(gone, f.Path)
		}
	}
	files := FilesOf(r, h)
	changed, there, err := h.Put(ctx, run.Directory(r, h), files)
	if err != nil {
		return err
	}
	for _, name := range changed {
		r.Line("file-deploy", "Deploying file [%s] to node [%s]", name, h.Node.Address)
	}
	h.Written = there
	gone = slices.DeleteFunc(gone, func(name string) bool { _, is := there[name]; return !is })
	return run.RemoveFiles(ctx, r, h, gone)
}

// Renewed says that a container runs with certificates that have been changed on its host
// since it started. What was deployed before is compared, too: a file that
// another command wrote again with the same contents restarts nothing.
func Renewed(r *run.Run, h *run.Host, c nodeconfig.Container) bool {
	newer := func(file string) bool {
		f, ok := h.Written[path.Join(h.Prefix, file)]
		return ok && !f.Changed.Before(c.Started.Truncate(time.Second))
	}
	if c.Name == desired.KubeAPIServer && r.Encrypting() != r.Before.Current.Encryption && newer(desired.EncryptionFile) {
		return true
	}
	for _, entry := range EntriesOf(c.Name, h) {
		if !differs(r, entry) || rereads(r, c.Name, entry) {
			continue
		}
		if slices.ContainsFunc([]string{pki.Path(entry), pki.KeyPath(entry)}, newer) {
			return true
		}
	}
	return false
}

// differs says that a certificate is another than the one that was deployed.
func differs(r *run.Run, entry string) bool {
	before, now := r.Before.Current.Certificates[entry], r.Bundle()[entry]
	return before.CertificatePEM != now.CertificatePEM || before.KeyPEM != now.KeyPEM
}

// rereads says that a container takes the new certificate of an entry into use while it runs: API servers look at their own within a
// minute, from 1.18 on, and etcd at each connection. It has to have the same key, so that the one of before is as good until
// then; what is new in it are names of hosts.
func rereads(r *run.Run, container, entry string) bool {
	before, now := r.Before.Current.Certificates[entry], r.Bundle()[entry]
	if before.KeyPEM == "" || before.KeyPEM != now.KeyPEM {
		return false
	}
	switch container {
	case desired.KubeAPIServer:
		v, known := versions.Parse(r.Work.Config.KubernetesVersion)
		return entry == pki.APIServer && known && v.AtLeast(1, 18)
	case desired.Etcd:
		return entry != pki.CA
	}
	return false
}

// EntriesOf are the certificates that a container reads at its start.
func EntriesOf(container string, h *run.Host) []string {
	switch container {
	case desired.Etcd:
		return []string{pki.CA, pki.EtcdName(h.Node)}
	case desired.KubeAPIServer:
		return []string{pki.CA, pki.APIServer, pki.ServiceAccount, pki.RequestHeaderCA, pki.ProxyClient, pki.Node, pki.EtcdClient, pki.EtcdClientCA}
	case desired.ControllerManager:
		return []string{pki.CA, pki.ControllerManager, pki.ServiceAccount}
	case desired.Scheduler:
		return []string{pki.Scheduler}
	case desired.Kubelet:
		return []string{pki.CA, pki.Node, pki.KubeletName(h.Node)}
	case desired.KubeProxy:
		return []string{pki.Proxy}
	}
	return nil
}

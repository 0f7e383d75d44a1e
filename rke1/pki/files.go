// Which files of a bundle a host gets.

package pki

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/config"
)

// File is a file of a host's certificates, with all that it shall be. Files that the rke CLI wrote
// end in one more newline; that alone is no difference.
type File struct {
	// Entry is the name of the entry that it comes from.
	Entry string
	// Path is on the host, its prefix path included.
	Path    string
	Content []byte
	Mode    fs.FileMode
	// UID and GID own it.
	UID, GID int
}

// FilesFor are the files of a host below its prefix path ("" and "/" are none), by path. A host without
// the control plane gets no CA key; kube-admin goes to no host.
func FilesFor(cfg *config.Cluster, n config.Node, prefix string, b Bundle) []File {
	names := map[string]bool{CA: true, Proxy: true, Node: true}
	if cfg.Services.Kubelet.GenerateServingCertificate {
		for _, each := range cfg.Nodes {
			names[KubeletName(each)] = true
		}
	}
	isEtcd, isControl := n.Has(config.RoleEtcd), n.Has(config.RoleControlPlane)
	if isEtcd {
		for _, each := range with(cfg, config.RoleEtcd) {
			names[EtcdName(each)] = true
		}
	}
	if isControl {
		for _, name := range []string{APIServer, ServiceAccount, ControllerManager, Scheduler, EtcdClient, EtcdClientCA, RequestHeaderCA, ProxyClient} {
			names[name] = true
		}
	}
	var files []File
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c, there := b[name]
		if !there {
			continue
		}
		if name == CA && !isControl {
			c.KeyPEM = ""
		}
		files = append(files, c.files(prefix)...)
	}
	if isEtcd {
		readableByEtcd(files, cfg.Services.Etcd.UID, cfg.Services.Etcd.GID)
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files
}

func (c Certificate) files(prefix string) []File {
	var files []File
	for _, part := range []struct{ path, text string }{
		{c.Path, c.CertificatePEM}, {c.KeyPath, c.KeyPEM}, {c.ConfigPath, c.Config},
	} {
		if part.text != "" {
			files = append(files, File{Entry: c.Name, Path: path.Join("/", prefix, part.path), Content: []byte(part.text), Mode: 0o600})
		}
	}
	return files
}

// readableByEtcd gives an etcd that runs as another user its files, and the CA, which all may read.
func readableByEtcd(files []File, uid, gid int) {
	if uid == 0 && gid == 0 {
		return
	}
	for i := range files {
		switch f := &files[i]; {
		case f.Entry == CA && path.Base(f.Path) == CA+".pem":
			f.Mode = 0o644
		case strings.HasPrefix(f.Entry, etcdPrefix+"-") && f.Entry != EtcdClient && f.Entry != EtcdClientCA:
			f.UID, f.GID = uid, gid
		}
	}
}

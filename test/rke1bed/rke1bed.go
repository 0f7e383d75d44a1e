// Package rke1bed starts hosts as RKE1 wants them: a Docker engine of their own with the images of a cluster in it, a real
// sshd with a user who may use Docker, and room for what Kubernetes and etcd keep. What is deployed on them is the business
// of others. The images are those of rke1images.
//
// The kubelet has to agree with Docker about cgroups: Debian's Docker 20.10 takes the driver cgroupfs where the machine has
// cgroups of version 1, and systemd where it has version 2; entrypoint.sh of the images asks Docker and passes the answer on.
package rke1bed

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/host"
	"github.com/drover-project/drover/test/rke1images"
)

// User is who may log in on hosts by SSH: not root, and in the group docker.
const User = "rancher"

// KubeletArgs are flags that a kubelet in the bed needs beside the usual ones (services.kubelet.extra_args): how full the
// disk of the machine is does not matter to tests, and pods would be evicted for it.
func KubeletArgs() map[string]string {
	return map[string]string{
		"eviction-hard": "memory.available<50Mi,nodefs.available<1Mi,imagefs.available<1Mi", "image-gc-high-threshold": "100",
	}
}

// Options say what a host is like.
type Options struct {
	// Name is the host's name, unique in the run. Required.
	Name string
	// Versions are those of rke1images whose images the host has from the beginning. Images that are not there cannot be
	// pulled, unless from a registry of the test.
	Versions []string
	// InsecureRegistries are registries, as host:port, that the host's Docker asks without TLS.
	InsecureRegistries []string
	// DNS is the address of the name service that the host asks. Default: the engine's.
	DNS string
}

// Host is a running host. Kill cuts its power and Boot starts it again, Reboot does both in order; Cut and Heal are for its
// network; LoadImage, Docker and Sh run on it whatever its network is like.
type Host struct {
	*host.Host
	key     ssh.Signer
	keyFile string
	hostKey ssh.PublicKey
}

// Start starts a host of the bed, and returns when its Docker has the images of the kit and its sshd answers. Files that the
// caller may want, such as the user's key, go to the directory dir.
func Start(ctx context.Context, b *bed.Bed, kit rke1images.Kit, dir string, o Options) (*Host, error) {
	image, err := host.Image(ctx, b.Engine, rke1images.HostPackages()...)
	if err != nil {
		return nil, err
	}
	settings := map[string]any{"bridge": nil, "iptables": nil, "ip6tables": nil, "ip-forward": nil} // as Debian has them
	if len(o.InsecureRegistries) > 0 {
		settings["insecure-registries"] = o.InsecureRegistries
	}
	h := &Host{}
	h.Host, err = b.DockerHost(ctx, host.Options{
		Name: o.Name, Image: image, DNS: o.DNS, DockerSettings: settings,
		Volumes: []string{"/var/lib/kubelet", "/var/lib/etcd", "/var/lib/rancher", "/var/lib/cni", "/opt/rke"},
	})
	if err != nil {
		return nil, err
	}
	if err := h.letIn(ctx, dir); err != nil {
		return nil, err
	}
	for _, version := range o.Versions {
		if err := h.LoadImage(ctx, kit.Archive(version)); err != nil {
			return nil, err
		}
		if !rke1images.PodsInDocker(version) {
			if err := h.readyContainerd(ctx, version, kit.Archive(version)); err != nil {
				return nil, err
			}
		}
	}
	return h, nil
}

// readyContainerd lets the containerd beside Docker run pods: a kubelet without dockershim is led there where it asks for
// cri-dockerd, which cannot be built here. It has images of its own.
func (h *Host) readyContainerd(ctx context.Context, version, archive string) error {
	const script = `
runc=runc
if [ -e /usr/local/sbin/runc-dropcap ]; then runc=/usr/local/sbin/runc-dropcap; fi
cat >/etc/containerd/config.toml <<EOF
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/$1"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/opt/cni/bin"
  conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  BinaryName = "$runc"
EOF
systemctl restart containerd docker`
	if _, err := h.Run(ctx, nil, "sh", "-euc", script, "containerd", rke1images.SystemImages(version)["pod_infra_container"]); err != nil {
		return fmt.Errorf("configure containerd: %w", err)
	}
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := h.Run(ctx, file, "ctr", "--namespace", "k8s.io", "images", "import", "-"); err != nil {
		return fmt.Errorf("load %s: %w", archive, err)
	}
	return nil
}

// Rename gives images of the host's Docker other names beside their own: old name → new name.
func (h *Host) Rename(ctx context.Context, names map[string]string) error {
	for from, to := range names {
		if _, err := h.Docker(ctx, "tag", from, to); err != nil {
			return err
		}
	}
	return nil
}

// Cut takes the host's network away, and Heal gives it back.
func (h *Host) Cut(ctx context.Context) error {
	_, err := h.Sh(ctx, "ip link set dev eth0 down")
	return err
}

// Heal is the end of Cut.
func (h *Host) Heal(ctx context.Context) error {
	_, err := h.Sh(ctx, "ip link set dev eth0 up; ip route replace default via "+h.Gateway())
	return err
}

// letIn makes the user, with a key of this run, and gives the sshd of the host a key of its own.
func (h *Host) letIn(ctx context.Context, dir string) error {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	if h.key, err = ssh.NewSignerFromKey(private); err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	h.keyFile = filepath.Join(dir, "ssh-"+h.Name())
	if err := os.WriteFile(h.keyFile, pem.EncodeToMemory(block), 0o600); err != nil {
		return err
	}
	authorized, err := ssh.NewPublicKey(public)
	if err != nil {
		return err
	}
	const script = `
useradd --create-home --shell /bin/bash --groups docker --password '*' ` + User + `
install -d -m 0700 -o ` + User + ` -g ` + User + ` /home/` + User + `/.ssh
install -m 0600 -o ` + User + ` -g ` + User + ` /dev/stdin /home/` + User + `/.ssh/authorized_keys
printf 'UsePAM no\nPasswordAuthentication no\nHostKey /etc/ssh/ssh_host_ed25519_key\n' >/etc/ssh/sshd_config.d/bed.conf`
	if _, err := h.Run(ctx, strings.NewReader(string(ssh.MarshalAuthorizedKey(authorized))), "sh", "-euc", script); err != nil {
		return fmt.Errorf("let people in on host %s: %w", h.Name(), err)
	}
	return h.RenewHostKey(ctx)
}

// RenewHostKey gives the host's sshd another key: the host is another host to those that knew it.
func (h *Host) RenewHostKey(ctx context.Context) error {
	const script = `
rm -f /etc/ssh/ssh_host_*
ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
systemctl restart ssh
cat /etc/ssh/ssh_host_ed25519_key.pub`
	text, err := h.Sh(ctx, script)
	if err != nil {
		return fmt.Errorf("give host %s another key: %w", h.Name(), err)
	}
	if h.hostKey, _, _, _, err = ssh.ParseAuthorizedKey([]byte(text)); err != nil {
		return fmt.Errorf("read the key of host %s: %w", h.Name(), err)
	}
	return nil
}

// Address is the host's address: that of nodes[] in a cluster.yml.
func (h *Host) Address() string { return h.IP() }

// KeyFile is the file of the private key with which User logs in.
func (h *Host) KeyFile() string { return h.keyFile }

// KnownHosts is the host's line for a known_hosts file.
func (h *Host) KnownHosts() string {
	return h.IP() + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(h.hostKey))) + "\n"
}

// SSH logs in as User. The caller closes the client.
func (h *Host) SSH(ctx context.Context) (*ssh.Client, error) {
	address := net.JoinHostPort(h.IP(), "22")
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("log in on host %s: %w", h.Name(), err)
	}
	config := &ssh.ClientConfig{
		User: User, Auth: []ssh.AuthMethod{ssh.PublicKeys(h.key)}, HostKeyCallback: ssh.FixedHostKey(h.hostKey),
	}
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() }) // the handshake knows no context
	defer stop()
	secured, channels, requests, err := ssh.NewClientConn(connection, address, config)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("log in on host %s: %w", h.Name(), err), connection.Close())
	}
	return ssh.NewClient(secured, channels, requests), nil
}

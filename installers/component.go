// Components of the control plane whose certificate and port a planner pins.

package installers

import (
	"cmp"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/plans"
)

// Component is a control-plane component with a health endpoint of its own.
type Component struct {
	// Name is kube-scheduler, ArgKey kube-scheduler-arg, its key in the config file, and
	// MountKey kube-scheduler-extra-mount.
	Name, ArgKey, MountKey string
	port                   int
}

// Components are those whose certificate directory and port the planner pins, so that their probes find them.
func Components() []Component {
	return []Component{component("kube-controller-manager", controllerPort), component("kube-scheduler", schedulerPort)}
}

func component(name string, port int) Component {
	return Component{Name: name, ArgKey: name + "-arg", MountKey: name + "-extra-mount", port: port}
}

// Args are the user's arguments with certificate directory and secure port added where the user
// chose neither of them nor a certificate file.
func (c Component) Args(user []string, dataDir string) []string {
	args := append([]string{}, user...)
	if !OwnCertificate(user) {
		args = append(args, "cert-dir="+c.certDir(dataDir))
	}
	if argument(user, "secure-port") == "" {
		args = append(args, "secure-port="+strconv.Itoa(c.port))
	}
	return args
}

// Mounts are the user's mounts with those of the directories that have the certificate and its key: the user's, or the one that
// Args adds.
func (c Component) Mounts(user, userArgs []string, dataDir string) []string {
	dirs := []string{c.certDir(dataDir)}
	if OwnCertificate(userArgs) {
		dirs = nil
		for _, name := range []string{"tls-cert-file", "tls-private-key-file"} {
			if file := argument(userArgs, name); file != "" {
				dirs = append(dirs, path.Dir(file))
			}
		}
		if argument(userArgs, "tls-cert-file") == "" { // otherwise the component does not read cert-dir
			dirs = append(dirs, path.Clean(argument(userArgs, "cert-dir")))
		}
	}
	mounts := append([]string{}, user...)
	for _, dir := range dirs {
		if path.IsAbs(dir) && dir != "/" && !mounted(mounts, dir) {
			mounts = append(mounts, dir+":"+dir)
		}
	}
	return mounts
}

// mounted says that a list of source:target[:options] has a directory, or one around it, as a target.
func mounted(mounts []string, dir string) bool {
	return slices.ContainsFunc(mounts, func(mount string) bool {
		source, target, ok := strings.Cut(mount, ":")
		if target, _, _ = strings.Cut(target, ":"); !ok {
			target = source
		}
		target = path.Clean(target)
		return dir == target || strings.HasPrefix(dir, strings.TrimSuffix(target, "/")+"/")
	})
}

// OwnCertificate says that the user decides where the component's certificate is.
func OwnCertificate(args []string) bool {
	return argument(args, "tls-cert-file") != "" || argument(args, "cert-dir") != ""
}

func (c Component) certDir(dataDir string) string {
	return path.Join(dataDir, "server/tls", c.Name)
}

// probe asks the component's health. It trusts the component's own certificate, which is self-signed.
func (c Component) probe(args []string, loopback, dataDir string) plans.Probe {
	port := cmp.Or(argument(args, "secure-port"), strconv.Itoa(c.port))
	cert := argument(args, "tls-cert-file")
	if cert == "" {
		dir := cmp.Or(argument(args, "cert-dir"), c.certDir(dataDir))
		cert = path.Join(dir, c.Name+".crt")
	}
	return probe(plans.HTTPGet{URL: "https://" + net.JoinHostPort(loopback, port) + "/healthz", CACert: cert})
}

// argument is the value of name=value in a list of component arguments; the last one wins.
func argument(args []string, name string) string {
	value := ""
	for _, arg := range args {
		if k, v, ok := strings.Cut(strings.TrimLeft(arg, "-"), "="); ok && k == name {
			value = v
		}
	}
	return value
}

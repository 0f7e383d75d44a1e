// Package installers is the room of what it takes to put a Kubernetes distribution
// on a host: k3s for the distribution, image for the OCI images that carry installers.
package installers

// RuntimeConfigDirs are the directories below /etc/rancher that hold a distribution's
// config, by the distribution's name. drover's agent keeps the files that a plan puts
// there below its own configuration directory and links them, so that one directory
// holds everything that was configured and both places stay true.
func RuntimeConfigDirs() map[string]string {
	return map[string]string{"k3s": "/etc/rancher/k3s", "rke2": "/etc/rancher/rke2"}
}

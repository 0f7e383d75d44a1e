// Package installers is the room of what it takes to put a Kubernetes distribution on a host.
// A Distribution is one value with all that k3s and RKE2 differ in, k3s and rke2 hold the two
// values, runtimes finds the one of a version, and image fetches the OCI images that carry
// installers. It decides nothing; the planner does.
//
// Sources: k3s-io/k3s, rancher/rke2, rancher/system-agent-installer-k3s and -rke2.
package installers

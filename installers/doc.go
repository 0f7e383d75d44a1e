// Package installers is the room of what it takes to put a Kubernetes distribution
// on a host: k3s for the distribution, image for the OCI images that carry installers.
package installers

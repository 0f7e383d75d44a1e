// Package peer lets drover meet the originals it must work with, as they are: Rancher's
// own system agent under drover's server, and drover's agent under a real
// kube-apiserver, which is what it finds under a Rancher. Its tests carry the build tag
// e2e and need root, since the agents do; all they write is below temporary directories.
package peer

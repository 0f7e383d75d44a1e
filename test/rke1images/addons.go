package rke1images

// What a cluster of the tests deploys in itself.

import (
	_ "embed"
	"strings"
)

//go:embed addons/network.yaml
var network string

//go:embed addons/dns.yaml
var dns string

// Network is the manifest of the pods' network for a cluster of the version, whose plugin is "none" and whose pods have
// 10.42.0.0/16.
func Network(version string) string {
	names := SystemImages(version)
	return strings.NewReplacer("FLANNEL_CNI_IMAGE", names[roleFlannelCNI], "FLANNEL_IMAGE", names[roleFlannel]).Replace(network)
}

// DNS is the manifest of CoreDNS for a cluster of the version without a DNS provider. Its address is 10.43.0.10.
func DNS(version string) string {
	return strings.ReplaceAll(dns, "COREDNS_IMAGE", SystemImages(version)[roleCoreDNS])
}

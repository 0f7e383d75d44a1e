// Package pki makes the certificates of the stand-in k3s and keeps them across restarts, in the files and under the
// subjects the real one uses, so that whatever reads them (probes, agents, people) finds them in their usual places.
//
// A certificate is made again when it is missing, belongs to another key, authority, subject or set of names than is
// wanted now, or ends within [RenewBefore]. Authorities are never replaced.
package pki

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/drover-project/drover/test/standin/atomicfile"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	// RenewBefore is how long before its end a certificate is made again at the next start.
	RenewBefore = 90 * 24 * time.Hour
)

// Names is what the certificates are issued for.
type Names struct {
	// Node is the Node's name.
	Node string
	// NodeIPs are its addresses.
	NodeIPs []netip.Addr
	// API are more names and addresses (as text) under which the API server is reached.
	API []string
	// ServiceIP is the address of the Service "kubernetes".
	ServiceIP netip.Addr
	// ClusterDomain ends the names of Services.
	ClusterDomain string
}

// leaf describes one certificate; file is relative to the data directory and without extension.
type leaf struct {
	file, authority string
	name            string
	groups          []string
	usages          []x509.ExtKeyUsage
	sans            []string // names and addresses
}

// Ensure makes what is missing or no longer right below dataDir. It may be killed at any point and run again.
func Ensure(dataDir string, n Names, now time.Time) error {
	for _, dir := range []string{"server/tls/etcd", "agent"} {
		if err := os.MkdirAll(filepath.Join(dataDir, dir), 0o700); err != nil {
			return fmt.Errorf("make the certificate directory: %w", err)
		}
	}
	authorities := map[string]*pair{}
	for _, file := range authorityFiles() {
		ca, err := ensureAuthority(filepath.Join(dataDir, file), "k3s-"+authorityName(file), now)
		if err != nil {
			return fmt.Errorf("certificate authority %s: %w", file, err)
		}
		authorities[file] = ca
	}
	for _, l := range leaves(n) {
		if err := ensureLeaf(filepath.Join(dataDir, l.file), l, authorities[l.authority], now); err != nil {
			return fmt.Errorf("certificate %s: %w", l.file, err)
		}
	}
	for _, name := range []string{"client-ca", "server-ca"} { // the agent's half has its own copies
		if err := atomicfile.Write(filepath.Join(dataDir, "agent", name+".crt"), authorities["server/tls/"+name].certPEM, 0o600); err != nil {
			return err
		}
	}
	return ensureServiceKey(filepath.Join(dataDir, "server/tls"))
}

func authorityFiles() []string {
	return []string{
		"server/tls/server-ca", "server/tls/client-ca", "server/tls/request-header-ca", "server/tls/etcd/server-ca", "server/tls/etcd/peer-ca",
	}
}

func authorityName(file string) string {
	name := filepath.Base(file)
	if filepath.Base(filepath.Dir(file)) == "etcd" {
		return "etcd-" + name
	}
	return name
}

func leaves(n Names) []leaf {
	const (
		server, client, header    = "server/tls/server-ca", "server/tls/client-ca", "server/tls/request-header-ca"
		etcdServer, etcdPeer, tls = "server/tls/etcd/server-ca", "server/tls/etcd/peer-ca", "server/tls/"
	)
	asClient := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	asServer := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	asBoth := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	masters := []string{"system:masters"}
	local := []string{"localhost", "127.0.0.1", "::1", n.Node}
	for _, ip := range n.NodeIPs {
		local = append(local, ip.String())
	}
	api := slices.Concat(local, n.API, []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + n.ClusterDomain, n.ServiceIP.String(),
	})
	return []leaf{
		{tls + "client-admin", client, "system:admin", masters, asClient, nil},
		{tls + "client-kube-apiserver", client, "system:apiserver", masters, asClient, nil},
		{tls + "client-supervisor", client, "system:k3s-supervisor", masters, asClient, nil},
		{tls + "client-controller", client, "system:kube-controller-manager", nil, asClient, nil},
		{tls + "client-scheduler", client, "system:kube-scheduler", nil, asClient, nil},
		{tls + "client-auth-proxy", header, "system:auth-proxy", nil, asClient, nil},
		{tls + "serving-kube-apiserver", server, "kube-apiserver", nil, asServer, api},
		{tls + "etcd/client", etcdServer, "etcd-client", nil, asClient, nil},
		{tls + "etcd/server-client", etcdServer, "etcd-server", nil, asBoth, local},
		{tls + "etcd/peer-server-client", etcdPeer, "etcd-peer", nil, asBoth, local},
		{"agent/client-kubelet", client, "system:node:" + n.Node, []string{"system:nodes"}, asClient, nil},
		{"agent/serving-kubelet", server, n.Node, nil, asServer, local},
	}
}

// split separates names from addresses, sorted and without duplicates.
func split(sans []string) (names []string, addresses []net.IP) {
	for _, san := range slices.Compact(slices.Sorted(slices.Values(sans))) {
		if addr, err := netip.ParseAddr(san); err == nil {
			addresses = append(addresses, addr.AsSlice())
		} else if san != "" {
			names = append(names, san)
		}
	}
	return names, addresses
}

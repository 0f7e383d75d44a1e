// Command flanneld stands in for flannel in the RKE1 clusters of the tests: hosts of a test are on one link, so pods of
// other hosts are reached by plain routes, whatever backend the configuration names. It asks the API for the nodes' pod
// networks again and again, writes the file that the CNI plugin reads, and lets the host forward what pods send.
//
// It knows of flannel the paths: /etc/kube-flannel/net-conf.json, /run/flannel/subnet.env, the variables POD_NAME and
// POD_NAMESPACE. Other flags than --help are accepted and ignored.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	configFile = "/etc/kube-flannel/net-conf.json"
	subnetFile = "/run/flannel/subnet.env"
	askEvery   = 2 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "stand-in of flannel:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	network, err := readNetwork(configFile)
	if err != nil {
		return err
	}
	api, err := inCluster()
	if err != nil {
		return err
	}
	if err := forward(ctx, network); err != nil {
		return err
	}
	node, done := "", state{}
	for {
		if node == "" {
			node, err = api.ownNode(ctx)
		}
		if err == nil {
			err = done.follow(ctx, api, node, network)
		}
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, err) // the API may come back
		}
		err = nil
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(askEvery):
		}
	}
}

// readNetwork is the network of all pods.
func readNetwork(path string) (netip.Prefix, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return netip.Prefix{}, err
	}
	var config struct{ Network string }
	if err := json.Unmarshal(text, &config); err != nil {
		return netip.Prefix{}, fmt.Errorf("read %s: %w", path, err)
	}
	return netip.ParsePrefix(config.Network)
}

// state is what was done for the nodes.
type state struct {
	subnet string
	routes map[string]string // the pod network of another node → its address
}

// follow does what changed since the last time.
func (s *state) follow(ctx context.Context, api api, own string, network netip.Prefix) error {
	nodes, err := api.nodes(ctx)
	if err != nil {
		return err
	}
	routes := map[string]string{}
	for _, n := range nodes {
		switch {
		case n.podCIDR == "":
		case n.name == own:
			if s.subnet != n.podCIDR {
				if err := writeSubnet(subnetFile, network, n.podCIDR); err != nil {
					return err
				}
				s.subnet = n.podCIDR
				fmt.Println("pods of this host have", n.podCIDR)
			}
		case n.address != "":
			routes[n.podCIDR] = n.address
		}
	}
	for pods := range s.routes {
		if _, still := routes[pods]; !still {
			_ = command(ctx, "ip", "route", "del", pods) // went with the interface, perhaps
		}
	}
	for pods, address := range routes {
		if s.routes[pods] == address {
			continue
		}
		if err := command(ctx, "ip", "route", "replace", pods, "via", address); err != nil {
			return err
		}
		fmt.Println("pods of", address, "have", pods)
	}
	s.routes = routes
	return nil
}

// writeSubnet writes what the CNI plugin reads. The bridge's address names the network, as flannel does it.
func writeSubnet(path string, network netip.Prefix, podCIDR string) error {
	pods, err := netip.ParsePrefix(podCIDR)
	if err != nil {
		return fmt.Errorf("read this node's pod network: %w", err)
	}
	text := fmt.Sprintf("FLANNEL_NETWORK=%s\nFLANNEL_SUBNET=%s/%d\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n", network, pods.Addr().Next(), pods.Bits())
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// forward lets the host forward what pods send, which Docker would drop, and hides pods from everybody else.
func forward(ctx context.Context, network netip.Prefix) error {
	pods := network.String()
	for _, rule := range [][]string{
		{"filter", "FORWARD", "-s", pods, "-j", "ACCEPT"},
		{"filter", "FORWARD", "-d", pods, "-j", "ACCEPT"},
		{"nat", "POSTROUTING", "-s", pods, "!", "-d", pods, "-j", "MASQUERADE"},
	} {
		spec := append([]string{rule[1]}, rule[2:]...)
		if command(ctx, "iptables", append([]string{"--wait", "-t", rule[0], "-C"}, spec...)...) == nil {
			continue
		}
		if err := command(ctx, "iptables", append([]string{"--wait", "-t", rule[0], "-I"}, spec...)...); err != nil {
			return err
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
}

func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), errors.Join(err, errors.New(strings.TrimSpace(string(out)))))
	}
	return nil
}

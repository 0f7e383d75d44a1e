package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

func TestSubnet(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "net-conf.json")
	if err := os.WriteFile(config, []byte(`{"Network": "10.42.0.0/16", "Backend": {"Type": "vxlan"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	network, err := readNetwork(config)
	if err != nil || network != netip.MustParsePrefix("10.42.0.0/16") {
		t.Fatalf("%s, %v", network, err)
	}
	file := filepath.Join(dir, "run/subnet.env")
	if err := writeSubnet(file, network, "10.42.3.0/24"); err != nil {
		t.Fatal(err)
	}
	const want = "FLANNEL_NETWORK=10.42.0.0/16\nFLANNEL_SUBNET=10.42.3.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
	if err := writeSubnet(file, network, "10.42.3.0"); err == nil {
		t.Error("what is not a network was accepted")
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestAddAndDelete lets a bridge plugin that records its configuration be called for a container, and a second time for
// its end, when flannel has another subnet.
func TestAddAndDelete(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("bridge", "#!/bin/sh\ncat >>"+dir+"/calls\necho >>"+dir+"/calls\necho '{\"ips\":[]}'\n")
	subnet := write("subnet.env", "FLANNEL_NETWORK=10.42.0.0/16\nFLANNEL_SUBNET=10.42.0.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n")
	t.Setenv("CNI_PATH", dir)
	config := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"cbr0","type":"flannel","subnetFile":%q,"dataDir":%q,"delegate":{"hairpinMode":true,"isDefaultGateway":true}}`, subnet, dir+"/data")

	var out bytes.Buffer
	if err := run("ADD", "c1", []byte(config), &out); err != nil || out.String() != "{\"ips\":[]}\n" {
		t.Fatalf("ADD: %v, %q", err, out.String())
	}
	write("subnet.env", "FLANNEL_SUBNET=10.42.9.1/24\n")
	if err := run("DEL", "c1", []byte(config), &out); err != nil {
		t.Fatal(err)
	}
	if err := run("DEL", "c1", []byte(config), &out); err != nil {
		t.Errorf("a second DEL: %v", err)
	}
	calls, err := os.ReadFile(dir + "/calls")
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(calls), []byte("\n"))
	if len(lines) != 2 || !bytes.Equal(lines[0], lines[1]) {
		t.Fatalf("the bridge was called with\n%s\nwant twice the same", calls)
	}
	var got struct {
		Type                           string
		Mtu                            int
		IPMasq, IsGateway, HairpinMode bool
		IsDefaultGateway               bool
		Ipam                           struct {
			Type   string
			Ranges [][]map[string]string
		}
	}
	if err := json.Unmarshal(lines[0], &got); err != nil {
		t.Fatal(err)
	}
	if got.Type != "bridge" || got.Mtu != 1450 || got.IPMasq || !got.IsGateway || !got.HairpinMode || !got.IsDefaultGateway ||
		got.Ipam.Type != "host-local" || got.Ipam.Ranges[0][0]["subnet"] != "10.42.0.0/24" {
		t.Errorf("the bridge was called with %+v", got)
	}
}

func TestRefusals(t *testing.T) {
	t.Setenv("CNI_PATH", t.TempDir())
	for name, call := range map[string]struct{ command, container, config string }{
		"not JSON":              {"ADD", "c1", "x"},
		"a container elsewhere": {"DEL", "../c1", "{}"},
		"no subnet yet":         {"ADD", "c1", `{"subnetFile":"/none"}`},
	} {
		if err := run(call.command, call.container, []byte(call.config), os.Stdout); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	var out bytes.Buffer
	if err := run("VERSION", "", nil, &out); err != nil || !bytes.Contains(out.Bytes(), []byte(`"1.0.0"`)) {
		t.Errorf("VERSION: %v, %s", err, out.String())
	}
}

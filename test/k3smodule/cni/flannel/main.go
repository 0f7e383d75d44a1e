// Command flannel is the CNI plugin that connects a pod to the network flannel runs on its host: it reads the subnet
// that flannel was given and lets the bridge plugin do the work. It stands in for the plugin of that name in k3s'
// releases, whose sources are no Go module; it does what a cluster without dual stack needs.
//
// The interface is that of the CNI specification 1.0: the configuration on standard input, the rest in the environment.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	defaultSubnetFile = "/run/flannel/subnet.env"
	defaultDataDir    = "/var/lib/cni/flannel"
	// errorCode is a plugin's own error in the specification.
	errorCode = 100
)

// config is what this plugin reads of its configuration.
type config struct {
	Version    string         `json:"cniVersion"`
	Name       string         `json:"name"`
	SubnetFile string         `json:"subnetFile"`
	DataDir    string         `json:"dataDir"`
	Delegate   map[string]any `json:"delegate"`
}

func main() {
	input, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = run(os.Getenv("CNI_COMMAND"), os.Getenv("CNI_CONTAINERID"), input, os.Stdout)
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit): // the delegate has printed why
		os.Exit(1)
	case err != nil:
		json.NewEncoder(os.Stdout).Encode(map[string]any{"cniVersion": "1.0.0", "code": errorCode, "msg": "flannel: " + err.Error()})
		os.Exit(1)
	}
}

func run(command, container string, input []byte, out io.Writer) error {
	if command == "VERSION" {
		return json.NewEncoder(out).Encode(map[string]any{"cniVersion": "1.0.0", "supportedVersions": []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0"}})
	}
	var c config
	if err := json.Unmarshal(input, &c); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	if container == "" || strings.ContainsRune(container, filepath.Separator) {
		return fmt.Errorf("%q is not a valid container id", container)
	}
	c.DataDir = cmp.Or(c.DataDir, defaultDataDir)
	kept := filepath.Join(c.DataDir, container)
	if command == "ADD" {
		delegate, err := c.delegate()
		if err != nil {
			return err
		}
		// What was added is removed with the same configuration, whatever subnet flannel has by then.
		if err := errors.Join(os.MkdirAll(c.DataDir, 0o700), os.WriteFile(kept, delegate, 0o600)); err != nil {
			return fmt.Errorf("keep the delegate's configuration: %w", err)
		}
		return call(delegate, out)
	}
	delegate, err := os.ReadFile(kept)
	if errors.Is(err, os.ErrNotExist) {
		return nil // never added, or removed before
	}
	if err != nil {
		return fmt.Errorf("read the delegate's configuration: %w", err)
	}
	if err := call(delegate, out); err != nil || command != "DEL" {
		return err
	}
	return os.Remove(kept)
}

// delegate is the configuration of the plugin that does the work.
func (c config) delegate() ([]byte, error) {
	c.SubnetFile = cmp.Or(c.SubnetFile, defaultSubnetFile)
	text, err := os.ReadFile(c.SubnetFile)
	if err != nil {
		return nil, fmt.Errorf("flannel has no subnet yet: %w", err)
	}
	subnet := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		subnet[key] = value
	}
	pods, err := netip.ParsePrefix(subnet["FLANNEL_SUBNET"])
	if err != nil {
		return nil, fmt.Errorf("read flannel's subnet: %w", err)
	}
	d := map[string]any{
		"cniVersion": c.Version, "name": c.Name, "type": "bridge", "isGateway": true,
		// What flannel masquerades itself the bridge does not.
		"ipMasq": subnet["FLANNEL_IPMASQ"] != "true",
		"ipam": map[string]any{
			// flannel names its subnet by the bridge's address, host-local wants that of the network.
			"type": "host-local", "ranges": [][]any{{map[string]any{"subnet": pods.Masked().String()}}},
			"routes": []any{map[string]any{"dst": subnet["FLANNEL_NETWORK"]}},
		},
	}
	if mtu := subnet["FLANNEL_MTU"]; mtu != "" {
		d["mtu"] = json.Number(mtu)
	}
	for key, value := range c.Delegate {
		d[key] = value
	}
	return json.Marshal(d)
}

// call runs the plugin that a configuration names, with the environment this one was given.
func call(delegate []byte, out io.Writer) error {
	var named struct{ Type string }
	if err := json.Unmarshal(delegate, &named); err != nil {
		return fmt.Errorf("read the delegate's configuration: %w", err)
	}
	for _, dir := range filepath.SplitList(os.Getenv("CNI_PATH")) {
		path := filepath.Join(dir, named.Type)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		command := exec.Command(path)
		command.Stdin, command.Stdout, command.Stderr = strings.NewReader(string(delegate)), out, os.Stderr
		return command.Run()
	}
	return fmt.Errorf("no plugin %q in %s", named.Type, os.Getenv("CNI_PATH"))
}

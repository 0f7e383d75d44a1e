// The agent that the installer's tests serve: it answers the two questions which
// install.sh asks of a new agent before it replaces an old one.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		// install.sh looks for this name to learn that the agent can notify systemd.
		return fmt.Errorf("want a command and a file, have %q (NOTIFY_SOCKET %q)", args, os.Getenv("NOTIFY_SOCKET"))
	}
	info, err := os.Stat(args[1])
	if err != nil {
		return err
	}
	if info.Mode().Perm() != 0o600 {
		return fmt.Errorf("%s has mode %v, want 0600", args[1], info.Mode())
	}
	data, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	switch args[0] {
	case "validate-connection":
		return checkConnection(args[1], data)
	case "validate-config":
		if !strings.HasSuffix(args[1], ".yaml") || !strings.Contains(string(data), "localEnabled: true") {
			return errors.New("not the configuration of an agent that only reads local plans")
		}
		return nil
	}
	return fmt.Errorf("unknown command %q", args[0])
}

func checkConnection(path string, data []byte) error {
	if !strings.HasSuffix(path, ".json") {
		return fmt.Errorf("%s does not end in .json", path)
	}
	var info struct{ KubeConfig, Namespace, SecretName string }
	if err := json.Unmarshal(data, &info); err != nil {
		return fmt.Errorf("parse connection info: %w", err)
	}
	if info.KubeConfig == "" || info.Namespace == "" || info.SecretName == "" {
		return errors.New("kubeConfig, namespace and secretName must be set")
	}
	return nil
}

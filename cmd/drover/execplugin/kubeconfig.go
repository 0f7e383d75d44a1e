// Kubeconfigs without a token: kubectl asks drover for one.

package execplugin

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
)

// Kubeconfig is a file by which kubectl reaches a cluster through the server and asks program for its tokens. With a
// context the login is that of the name; config is the file of contexts where it is not the usual one. It returns an error where YAML cannot be made
// of it.
func Kubeconfig(c *client.Client, cluster apitypes.Cluster, program, context, config string) ([]byte, error) {
	type named map[string]any
	way := named{"server": c.Server() + "/k8s/clusters/" + cluster.ID}
	if ca := c.CA(); ca != "" {
		way["certificate-authority-data"] = base64.StdEncoding.EncodeToString([]byte(ca))
	}
	args := []string{"token", "--server=" + c.Server(), "--cluster=" + cluster.ID}
	if context != "" {
		args = append(args, "--context="+context)
	}
	plugin := named{
		"apiVersion": apiVersion, "command": program, "args": args, "interactiveMode": "Never", "provideClusterInfo": false,
		"installHint": fmt.Sprintf("drover's command line gets the tokens of this kubeconfig: install it, and log in with `drover login %s --username NAME`", c.Server()),
	}
	if config != "" {
		plugin["env"] = []named{{"name": "DROVER_CONFIG", "value": config}}
	}
	name := cluster.Name
	text, err := yaml.Marshal(named{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []named{{"name": name, "cluster": way}},
		"users":    []named{{"name": name, "user": named{"exec": plugin}}},
		"contexts": []named{{"name": name, "context": named{"cluster": name, "user": name}}},
	})
	if err != nil {
		return nil, fmt.Errorf("write a kubeconfig of cluster %s: %w", name, err)
	}
	return text, nil
}

// Program is what kubeconfigs run: drover by its name where the shell finds it, or else this very file.
func Program() string {
	if _, err := exec.LookPath("drover"); err == nil {
		return "drover"
	}
	if self, err := os.Executable(); err == nil {
		return self
	}
	return "drover"
}

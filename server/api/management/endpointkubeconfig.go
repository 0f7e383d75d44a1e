// The kubeconfigs that people get.

package management

import (
	"encoding/base64"
	"fmt"
	"net/url"
)

// Kubeconfig is the file that kubectl reads.
type Kubeconfig struct {
	APIVersion     string         `yaml:"apiVersion"`
	Kind           string         `yaml:"kind"`
	Clusters       []namedCluster `yaml:"clusters"`
	Users          []namedUser    `yaml:"users"`
	Contexts       []namedContext `yaml:"contexts"`
	CurrentContext string         `yaml:"current-context"`
}

type namedCluster struct {
	Name    string `yaml:"name"`
	Cluster struct {
		Server string `yaml:"server"`
		CAData string `yaml:"certificate-authority-data,omitempty"`
	} `yaml:"cluster"`
}

type namedUser struct {
	Name string `yaml:"name"`
	User struct {
		Token string      `yaml:"token,omitempty"`
		Exec  *execPlugin `yaml:"exec,omitempty"`
	} `yaml:"user"`
}

// execPlugin makes kubectl ask the rancher CLI for a token.
type execPlugin struct {
	APIVersion string   `yaml:"apiVersion"`
	Command    string   `yaml:"command"`
	Args       []string `yaml:"args"`
}

type namedContext struct {
	Name    string `yaml:"name"`
	Context struct {
		Cluster string `yaml:"cluster"`
		User    string `yaml:"user"`
	} `yaml:"context"`
}

// KubeconfigCluster is a cluster of a kubeconfig, and the token that is good there; an empty one has kubectl ask the rancher CLI for a token.
type KubeconfigCluster struct{ Name, ID, Token string }

// newKubeconfig has for each cluster a context and a user of its name, so that no token is sent to another cluster. UserID is the login of the
// rancher CLI. The error says that server is no URL.
func newKubeconfig(server, caCerts, userID string, clusters []KubeconfigCluster, current string) (Kubeconfig, error) {
	k := Kubeconfig{APIVersion: "v1", Kind: "Config", CurrentContext: current}
	for _, one := range clusters {
		cluster, context, user := namedCluster{Name: one.Name}, namedContext{Name: one.Name}, namedUser{Name: one.Name}
		cluster.Cluster.Server = server + "/k8s/clusters/" + one.ID
		if caCerts != "" {
			cluster.Cluster.CAData = base64.StdEncoding.EncodeToString([]byte(caCerts))
		}
		context.Context.Cluster, context.Context.User = one.Name, one.Name
		if user.User.Token = one.Token; one.Token == "" {
			plugin, err := rancherPlugin(server, userID, one.ID)
			if err != nil {
				return k, err
			}
			user.User.Exec = plugin
		}
		k.Clusters, k.Users, k.Contexts = append(k.Clusters, cluster), append(k.Users, user), append(k.Contexts, context)
	}
	return k, nil
}

// rancherPlugin has kubectl ask the rancher CLI for a token of a cluster.
func rancherPlugin(server, userID, clusterID string) (*execPlugin, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("make a kubeconfig: server URL %q: %w", server, err)
	}
	return &execPlugin{
		APIVersion: "client.authentication.k8s.io/v1beta1", Command: "rancher",
		Args: []string{"token", "--server=" + u.Host, "--user=" + userID, "--cluster=" + clusterID},
	}, nil
}

// Lead adds ways with the user of the first context.
func (k *Kubeconfig) Lead(direct []Endpoint) {
	for _, way := range direct {
		var c namedCluster
		c.Name, c.Cluster.Server = way.Context, way.Server
		if way.CA != "" {
			c.Cluster.CAData = base64.StdEncoding.EncodeToString([]byte(way.CA))
		}
		var context namedContext
		context.Name, context.Context.Cluster, context.Context.User = way.Context, way.Context, k.Users[0].Name
		k.Clusters, k.Contexts = append(k.Clusters, c), append(k.Contexts, context)
	}
}

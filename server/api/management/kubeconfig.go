// Kubeconfigs: made from what the server knows, never by asking the cluster, so that
// they can be had while it is down.

package management

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
)

// Kubeconfigs makes kubeconfigs.
type Kubeconfigs struct {
	State    *state.State
	Auth     *auth.Auth
	Settings *settings.Settings
	// ClusterCA is the CA of a cluster's API, in PEM and empty while it is not known; nil knows none.
	ClusterCA func(records.ClusterKey) []byte
	// TokenArrived waits until a token is in a cluster with an authorized endpoint; nil does not wait.
	TokenArrived func(ctx context.Context, cluster records.ClusterKey, token string) error
}

// Generate makes a kubeconfig for the caller, with a token of its own, which is good for the cluster alone.
func (a Kubeconfigs) Generate(c *Request) (route.Answer, error) {
	name, _ := c.object.Fields["name"].(string)
	cluster := KubeconfigCluster{Name: name, ID: c.id}
	if a.Settings.Get("kubeconfig-generate-token").Value != "false" {
		text, _, err := a.Auth.IssueToken(c.Ctx(), a.Token(c.Who.UserID, c.id, fmt.Sprintf("kubeconfig of cluster %s (%s) for %.100s", name, c.id, c.R.UserAgent())))
		if err != nil {
			return route.Answer{}, err
		}
		cluster.Token = text
	}
	config, err := a.Text(c.Call, []KubeconfigCluster{cluster}, name)
	if err != nil {
		return route.Answer{}, err
	}
	return route.Answer{Status: http.StatusOK, Body: map[string]any{
		"type": "generateKubeconfigOutput", "baseType": "generateKubeconfigOutput", "config": config,
		"links": map[string]string{}, "actions": map[string]string{},
	}}, nil
}

// Token is a token whose name says what it is for, good for one cluster alone unless clusterID is empty.
func (a Kubeconfigs) Token(userID, clusterID, description string) records.Token {
	ttl, _, _ := tokenTTL(0, a.Settings.Minutes("kubeconfig-default-token-ttl-minutes"), a.Settings.Minutes("kubeconfig-max-token-ttl-minutes")) // 0 is a valid ttl
	return records.Token{
		Name: "kubeconfig-" + userID + randomid.ID(5), UserID: userID, ClusterID: clusterID,
		Description: description, TTLMillis: int64(ttl / time.Millisecond),
	}
}

// Text is a kubeconfig of the caller for clusters, with a context and a user of the same name for each. One of a single cluster has the
// ways that do not lead through the server as well. The errors are those of newKubeconfig.
func (a Kubeconfigs) Text(c *route.Call, clusters []KubeconfigCluster, current string) (string, error) {
	server := cmp.Or(a.Settings.ServerURL(), c.URLs.Base)
	k, err := newKubeconfig(server, a.Settings.CACerts(), c.Who.UserID, clusters, current)
	if err != nil {
		return "", err
	}
	if len(clusters) == 1 {
		direct, missing := a.endpoint(clusters[0].ID, clusters[0].Name)
		if missing != "" {
			c.Warn("the kubeconfig leads through the server alone: " + missing)
		}
		a.lead(c, &k, clusters[0], direct)
	}
	text, err := yaml.Marshal(k)
	if err != nil {
		return "", fmt.Errorf("make a kubeconfig: %w", err)
	}
	return string(text), nil
}

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
		cluster, entry, user := namedCluster{Name: one.Name}, namedContext{Name: one.Name}, namedUser{Name: one.Name}
		cluster.Cluster.Server = server + "/k8s/clusters/" + one.ID
		if caCerts != "" {
			cluster.Cluster.CAData = base64.StdEncoding.EncodeToString([]byte(caCerts))
		}
		entry.Context.Cluster, entry.Context.User = one.Name, one.Name
		if user.User.Token = one.Token; one.Token == "" {
			plugin, err := rancherPlugin(server, userID, one.ID)
			if err != nil {
				return k, err
			}
			user.User.Exec = plugin
		}
		k.Clusters, k.Users, k.Contexts = append(k.Clusters, cluster), append(k.Users, user), append(k.Contexts, entry)
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
func (k *Kubeconfig) Lead(direct []endpoint) {
	for _, way := range direct {
		var c namedCluster
		c.Name, c.Cluster.Server = way.Context, way.Server
		if way.CA != "" {
			c.Cluster.CAData = base64.StdEncoding.EncodeToString([]byte(way.CA))
		}
		var entry namedContext
		entry.Name, entry.Context.Cluster, entry.Context.User = way.Context, way.Context, k.Users[0].Name
		k.Clusters, k.Contexts = append(k.Clusters, c), append(k.Contexts, entry)
	}
}

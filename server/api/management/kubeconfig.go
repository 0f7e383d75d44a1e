// Kubeconfigs: made from what the server knows, never by asking the cluster, so that
// they can be had while it is down.

package management

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/random"
	"github.com/drover-project/drover/server/records"
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

// GenerateKubeconfig makes a kubeconfig for the caller, with a token of its own.
func (a *API) GenerateKubeconfig(c *Request) (route.Answer, error) {
	name, _ := c.object.Fields["name"].(string)
	// Only a token that is limited to the cluster is carried there.
	on, direct, missing := a.endpoint(c.id, name)
	limit := ""
	if on {
		limit = c.id
	}
	if missing != "" {
		c.Warn("the kubeconfig leads through the server alone: " + missing)
	}
	token, carried := "", ""
	if a.Settings.Get("kubeconfig-generate-token").Value != "false" {
		text, made, err := a.Auth.IssueToken(c.Ctx(), a.KubeconfigToken(c.Who.UserID, limit, fmt.Sprintf("kubeconfig of cluster %s (%s) for %.100s", name, c.id, c.R.UserAgent())))
		if err != nil {
			return route.Answer{}, err
		}
		token, carried = text, made.Name
	}
	k, err := a.kubeconfig(c.Call, []KubeconfigCluster{{Name: name, ID: c.id}}, name, token, limit)
	if err != nil {
		return route.Answer{}, err
	}
	a.lead(c.Call, &k, c.id, carried, direct)
	config, err := yaml.Marshal(k)
	if err != nil {
		return route.Answer{}, fmt.Errorf("make a kubeconfig: %w", err)
	}
	return route.Answer{Status: http.StatusOK, Body: map[string]any{
		"type": "generateKubeconfigOutput", "baseType": "generateKubeconfigOutput", "config": string(config),
		"links": map[string]string{}, "actions": map[string]string{},
	}}, nil
}

// KubeconfigToken is a token whose name says what it is for.
func (a *API) KubeconfigToken(userID, clusterID, description string) records.Token {
	ttl, _, _ := tokenTTL(0, a.Settings.Minutes("kubeconfig-default-token-ttl-minutes"), a.Settings.Minutes("kubeconfig-max-token-ttl-minutes")) // 0 is a valid ttl
	return records.Token{
		Name: "kubeconfig-" + userID + random.ID(5), UserID: userID, ClusterID: clusterID,
		Description: description, TTLMillis: int64(ttl / time.Millisecond),
	}
}

// KubeconfigCluster is a cluster of a kubeconfig.
type KubeconfigCluster struct{ Name, ID string }

// KubeconfigText is a kubeconfig of the caller for clusters, with a context of the same name for each and one user of the
// name of the current one, who has a token of the text given. One of a single cluster, whose token is limited to it, has the
// ways that do not lead through the server as well.
func (a *API) KubeconfigText(c *route.Call, clusters []KubeconfigCluster, current, token string) (string, error) {
	k, err := a.kubeconfig(c, clusters, current, token, "")
	if err != nil {
		return "", err
	}
	if len(clusters) == 1 {
		_, direct, missing := a.endpoint(clusters[0].ID, clusters[0].Name)
		if missing != "" {
			c.Warn("the kubeconfig leads through the server alone: " + missing)
		}
		name, _, _ := strings.Cut(token, ":")
		a.lead(c, &k, clusters[0].ID, name, direct)
	}
	text, err := yaml.Marshal(k)
	if err != nil {
		return "", fmt.Errorf("make a kubeconfig: %w", err)
	}
	return string(text), nil
}

// kubeconfig is KubeconfigText before it is text; a token that the rancher CLI is to get is limited to the cluster limit
// unless that is empty.
func (a *API) kubeconfig(c *route.Call, clusters []KubeconfigCluster, current, token, limit string) (Kubeconfig, error) {
	server := a.Settings.ServerURL()
	if server == "" {
		server = c.URLs.Base
	}
	k := newKubeconfig(server, a.Settings.CACerts(), clusters, current)
	k.Users[0].User.Token = token
	if token != "" {
		return k, nil
	}
	plugin, err := rancherPlugin(server, c.Who.UserID, limit)
	k.Users[0].User.Exec = plugin
	return k, err
}

// newKubeconfig has a context of the same name for each cluster, and one user, who has no credential yet.
func newKubeconfig(server, caCerts string, clusters []KubeconfigCluster, current string) Kubeconfig {
	k := Kubeconfig{APIVersion: "v1", Kind: "Config", CurrentContext: current, Users: make([]namedUser, 1)}
	k.Users[0].Name = current
	for _, one := range clusters {
		cluster, context := namedCluster{Name: one.Name}, namedContext{Name: one.Name}
		cluster.Cluster.Server = server + "/k8s/clusters/" + one.ID
		if caCerts != "" {
			cluster.Cluster.CAData = base64.StdEncoding.EncodeToString([]byte(caCerts))
		}
		context.Context.Cluster, context.Context.User = one.Name, current
		k.Clusters, k.Contexts = append(k.Clusters, cluster), append(k.Contexts, context)
	}
	return k
}

// rancherPlugin has kubectl ask the rancher CLI for a token.
func rancherPlugin(server, userID, limit string) (*execPlugin, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("make a kubeconfig: server URL %q: %w", server, err)
	}
	plugin := &execPlugin{
		APIVersion: "client.authentication.k8s.io/v1beta1", Command: "rancher",
		Args: []string{"token", "--server=" + u.Host, "--user=" + userID},
	}
	if limit != "" {
		plugin.Args = append(plugin.Args, "--cluster="+limit)
	}
	return plugin, nil
}

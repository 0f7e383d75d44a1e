// Kubeconfigs: made from what the server knows, never by asking the cluster, so that
// they can be had while it is down.

package management

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
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
	server := a.Settings.ServerURL()
	if server == "" {
		server = c.URLs.Base
	}
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
	token := ""
	if a.Settings.Get("kubeconfig-generate-token").Value != "false" {
		text, made, err := a.Auth.IssueToken(c.Ctx(), a.KubeconfigToken(c.Who.UserID, limit, fmt.Sprintf("kubeconfig of cluster %s (%s) for %.100s", name, c.id, c.R.UserAgent())))
		if err != nil {
			return route.Answer{}, err
		}
		token = text
		if len(direct) > 0 {
			if reason := a.arrived(c.Ctx(), c.id, made.Name); reason != "" {
				c.Warn(reason)
			}
		}
	}
	k, err := newKubeconfig(name, c.id, server, a.Settings.CACerts(), c.Who.UserID, token, limit)
	if err != nil {
		return route.Answer{}, err
	}
	k.lead(direct)
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

// newKubeconfig has one cluster, one user and one context. Without a token the user is
// one that the rancher CLI gets a token for, which is limited to the cluster limit unless that is empty.
func newKubeconfig(name, clusterID, server, caCerts, userID, token, limit string) (Kubeconfig, error) {
	k := Kubeconfig{
		APIVersion: "v1", Kind: "Config", CurrentContext: name,
		Clusters: make([]namedCluster, 1), Users: make([]namedUser, 1), Contexts: make([]namedContext, 1),
	}
	k.Clusters[0].Name = name
	k.Clusters[0].Cluster.Server = server + "/k8s/clusters/" + clusterID
	if caCerts != "" {
		k.Clusters[0].Cluster.CAData = base64.StdEncoding.EncodeToString([]byte(caCerts))
	}
	k.Users[0].Name = name
	k.Users[0].User.Token = token
	if token == "" {
		u, err := url.Parse(server)
		if err != nil {
			return k, fmt.Errorf("make a kubeconfig: server URL %q: %w", server, err)
		}
		k.Users[0].User.Exec = &execPlugin{
			APIVersion: "client.authentication.k8s.io/v1beta1", Command: "rancher",
			Args: []string{"token", "--server=" + u.Host, "--user=" + userID},
		}
		if limit != "" {
			k.Users[0].User.Exec.Args = append(k.Users[0].User.Exec.Args, "--cluster="+limit)
		}
	}
	k.Contexts[0].Name, k.Contexts[0].Context.Cluster, k.Contexts[0].Context.User = name, name, name
	return k, nil
}

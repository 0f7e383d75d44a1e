// Kubeconfigs: made from what the server knows, never by asking the cluster, so that
// they can be had while it is down.

package management

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
)

// GenerateKubeconfig makes a kubeconfig for the caller, with a token of its own, which is good for the cluster alone.
func (a *API) GenerateKubeconfig(c *Request) (route.Answer, error) {
	name, _ := c.object.Fields["name"].(string)
	cluster := KubeconfigCluster{Name: name, ID: c.id}
	if a.Settings.Get("kubeconfig-generate-token").Value != "false" {
		text, _, err := a.Auth.IssueToken(c.Ctx(), a.KubeconfigToken(c.Who.UserID, c.id, fmt.Sprintf("kubeconfig of cluster %s (%s) for %.100s", name, c.id, c.R.UserAgent())))
		if err != nil {
			return route.Answer{}, err
		}
		cluster.Token = text
	}
	config, err := a.KubeconfigText(c.Call, []KubeconfigCluster{cluster}, name)
	if err != nil {
		return route.Answer{}, err
	}
	return route.Answer{Status: http.StatusOK, Body: map[string]any{
		"type": "generateKubeconfigOutput", "baseType": "generateKubeconfigOutput", "config": config,
		"links": map[string]string{}, "actions": map[string]string{},
	}}, nil
}

// KubeconfigToken is a token whose name says what it is for, good for one cluster alone unless clusterID is empty.
func (a *API) KubeconfigToken(userID, clusterID, description string) records.Token {
	ttl, _, _ := tokenTTL(0, a.Settings.Minutes("kubeconfig-default-token-ttl-minutes"), a.Settings.Minutes("kubeconfig-max-token-ttl-minutes")) // 0 is a valid ttl
	return records.Token{
		Name: "kubeconfig-" + userID + randomid.ID(5), UserID: userID, ClusterID: clusterID,
		Description: description, TTLMillis: int64(ttl / time.Millisecond),
	}
}

// KubeconfigText is a kubeconfig of the caller for clusters, with a context and a user of the same name for each. One of a single cluster has the
// ways that do not lead through the server as well. The errors are those of newKubeconfig.
func (a *API) KubeconfigText(c *route.Call, clusters []KubeconfigCluster, current string) (string, error) {
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

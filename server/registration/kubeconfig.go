// The kubeconfig that an agent gets when its host registers.

package registration

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync/atomic"

	"gopkg.in/yaml.v3"
)

// kubeconfigs makes kubeconfigs that differ in nothing but the token, which is all that differs
// between thousands of hosts that register at once. The zero value is ready, for several goroutines too.
type kubeconfigs struct {
	last atomic.Pointer[kubeconfigForm]
}

// kubeconfigForm is a kubeconfig around its token.
type kubeconfigForm struct{ server, ca, before, after string }

// tokenPlace stands for a token, which like it is a YAML string without quotes.
const tokenPlace = "drover-machine.namespace.machine.secret"

// of is the kubeconfig of an agent: the server's URL, its CA in PEM, empty for those of the system, and the
// agent's token, which is kubeconfigText that YAML needs no quotes for.
func (k *kubeconfigs) of(server, ca, token string) (string, error) {
	f := k.last.Load()
	if f == nil || f.server != server || f.ca != ca {
		whole, err := kubeconfigText(server, ca, tokenPlace)
		if err != nil {
			return "", err
		}
		before, after, _ := strings.Cut(whole, tokenPlace)
		f = &kubeconfigForm{server: server, ca: ca, before: before, after: after}
		k.last.Store(f)
	}
	return f.before + token + f.after, nil
}

// kubeconfigText is a kubeconfig whose one cluster, user and context are called agent.
func kubeconfigText(server, ca, token string) (string, error) {
	type named[T any] struct {
		Name string `yaml:"name"`
		Body T      `yaml:",inline"`
	}
	type cluster struct {
		Cluster struct {
			Server string `yaml:"server"`
			CA     string `yaml:"certificate-authority-data,omitempty"`
		} `yaml:"cluster"`
	}
	type user struct {
		User struct {
			Token string `yaml:"token"`
		} `yaml:"user"`
	}
	type kubeContext struct {
		Context struct {
			Cluster string `yaml:"cluster"`
			User    string `yaml:"user"`
		} `yaml:"context"`
	}
	const name = "agent"
	var c cluster
	var u user
	var k kubeContext
	c.Cluster.Server = server
	if ca != "" {
		c.Cluster.CA = base64.StdEncoding.EncodeToString([]byte(ca))
	}
	u.User.Token = token
	k.Context.Cluster, k.Context.User = name, name
	b, err := yaml.Marshal(struct {
		APIVersion     string               `yaml:"apiVersion"`
		Kind           string               `yaml:"kind"`
		Clusters       []named[cluster]     `yaml:"clusters"`
		Users          []named[user]        `yaml:"users"`
		Contexts       []named[kubeContext] `yaml:"contexts"`
		CurrentContext string               `yaml:"current-context"`
	}{
		"v1", "Config", []named[cluster]{{name, c}}, []named[user]{{name, u}}, []named[kubeContext]{{name, k}}, name,
	})
	if err != nil {
		return "", fmt.Errorf("write the agent's kubeconfig: %w", err)
	}
	return string(b), nil
}

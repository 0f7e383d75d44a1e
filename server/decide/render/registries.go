// Registries: where images are fetched, whom to trust there, and who asks.

package render

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/clusterspec"
)

// registries is registries.yaml, empty when the cluster has none, and the files that it names.
func (r render) registries() ([]byte, []plans.File, error) {
	reg := r.rke.Registries
	if reg == nil || len(reg.Mirrors)+len(reg.Configs) == 0 {
		return nil, nil, nil
	}
	doc := map[string]any{}
	if len(reg.Mirrors) > 0 {
		doc["mirrors"] = reg.Mirrors
	}
	var files []plans.File
	if len(reg.Configs) > 0 {
		configs := map[string]any{}
		for _, host := range slices.Sorted(maps.Keys(reg.Configs)) {
			config, trust, err := r.registryConfig(host, reg.Configs[host])
			if err != nil {
				return nil, nil, fmt.Errorf("registry %s of cluster %s: %w", host, r.Cluster.Key(), err)
			}
			configs[host] = config
			files = append(files, trust...)
		}
		doc["configs"] = configs
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return nil, nil, fmt.Errorf("render the registries of cluster %s: %w", r.Cluster.Key(), err)
	}
	return b, files, nil
}

// registryConfig is the config of one registry with its files, which are sorted by path.
func (r render) registryConfig(host string, c clusterspec.RegistryConfig) (map[string]any, []plans.File, error) {
	tls := map[string]any{"ca_file": "", "cert_file": "", "key_file": "", "insecure_skip_verify": c.InsecureSkipVerify}
	config := map[string]any{"tls": tls}
	var files []plans.File
	add := func(field, name string, content []byte) {
		at := path.Join(r.dataDir, "etc/tls/registries", strings.ReplaceAll(host, "/", "_"), name)
		tls[field] = at
		files = append(files, plans.File{Path: at, Content: plans.EncodeContent(content)})
	}
	if c.CABundle != "" {
		add("ca_file", "ca.crt", []byte(c.CA()))
	}
	if c.TLSSecretName != "" {
		secret, err := object(r.Input, objects.KeyOf(objects.Secret, r.Cluster.Namespace, c.TLSSecretName))
		if err != nil {
			return nil, nil, err
		}
		if secret.Type != objects.TLSSecret {
			return nil, nil, fmt.Errorf("%s has the type %s where %s belongs", named(secret), secret.Type, objects.TLSSecret)
		}
		add("cert_file", "tls.crt", secret.Data["tls.crt"])
		add("key_file", "tls.key", secret.Data["tls.key"])
	}
	if c.AuthConfigSecretName != "" {
		secret, err := object(r.Input, objects.KeyOf(objects.Secret, r.Cluster.Namespace, c.AuthConfigSecretName))
		if err != nil {
			return nil, nil, err
		}
		login, err := credentials(secret, host)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", named(secret), err)
		}
		config["auth"] = login
	}
	return config, files, nil
}

// login is how a runtime logs in at a registry. Auth is base64 of "user:password".
//
// Source: the registry configuration of k3s and RKE2 (rancher/wharfie pkg/registries).
type login struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identity_token"`
}

// credentials are what a Secret has for a registry. Errors repeat none of it.
func credentials(secret objects.Object, host string) (login, error) {
	text := func(key string) string { return string(secret.Data[key]) }
	switch secret.Type {
	case objects.AuthConfigSecret:
		l := login{Username: text("username"), Password: text("password"), IdentityToken: text("identityToken")}
		if auth := secret.Data["auth"]; len(auth) > 0 {
			l.Auth = base64.StdEncoding.EncodeToString(auth)
		}
		return l, nil
	case objects.BasicAuthSecret:
		return login{Username: text("username"), Password: text("password")}, nil
	case objects.DockerConfigSecret:
		return dockerCredentials(secret.Data[".dockerconfigjson"], host)
	}
	return login{}, fmt.Errorf("its type %s is none of %s, %s, %s", secret.Type, objects.AuthConfigSecret, objects.BasicAuthSecret, objects.DockerConfigSecret)
}

// dockerCredentials are those of a registry in the text of a Docker config.json.
func dockerCredentials(text []byte, host string) (login, error) {
	var config struct {
		Auths map[string]struct {
			Username      string `json:"username"`
			Password      string `json:"password"`
			Auth          string `json:"auth"`
			IdentityToken string `json:"identitytoken"`
		} `json:"auths"`
	}
	if json.Unmarshal(text, &config) != nil {
		return login{}, errors.New("the value of .dockerconfigjson is not that of a Docker config.json")
	}
	for _, key := range slices.Sorted(maps.Keys(config.Auths)) {
		if registryHost(key) != registryHost(host) {
			continue
		}
		entry := config.Auths[key]
		l := login{Username: entry.Username, Password: entry.Password, IdentityToken: entry.IdentityToken}
		if entry.Auth == "" {
			return l, nil
		}
		pair, err := base64.StdEncoding.DecodeString(entry.Auth)
		user, password, ok := strings.Cut(string(pair), ":")
		if err != nil || !ok {
			return login{}, fmt.Errorf("auths of %s: auth is not base64 of user:password", key)
		}
		l.Username, l.Password = user, password
		return l, nil
	}
	return login{}, fmt.Errorf("it has no entry for %s", host)
}

// registryHost is the host that a key of a Docker config.json, or of the cluster's registries, stands for.
func registryHost(key string) string {
	_, rest, ok := strings.Cut(key, "://")
	if !ok {
		rest = key
	}
	host, _, _ := strings.Cut(rest, "/")
	switch host {
	case "index.docker.io", "registry-1.docker.io":
		return "docker.io"
	}
	return host
}

// Credentials of a Docker config.json, for hosts where a user logged in by hand. A
// reader of our own: the one of the Docker CLI starts helper programs it finds in PATH.

package credentials

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/drover-project/drover/plans/durable"

	"github.com/drover-project/drover/installers/image/registries"
)

// maxConfig bounds a configuration file, in bytes.
const maxConfig = 1 << 20

// dockerHub is the key of the default registry in that file.
const dockerHub = "https://index.docker.io/v1/"

// dockerConfig is the part of the file that we read.
type dockerConfig struct {
	Auths map[string]struct {
		Auth          string `json:"auth"`
		Username      string `json:"username"`
		Password      string `json:"password"`
		IdentityToken string `json:"identitytoken"`
	} `json:"auths"`
}

// dockerAuth is what the file has for a registry; nil when it has nothing.
func dockerAuth(file, host string) (*authn.AuthConfig, error) {
	if file == "" {
		return nil, nil
	}
	b, err := durable.ReadFile(file, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var c dockerConfig
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("read %s: it is not the JSON of a Docker configuration", file)
	}
	keys := []string{host, "https://" + host, "http://" + host}
	if registries.PublicName(host) == "docker.io" {
		keys = append(keys, dockerHub, "docker.io")
	}
	for _, key := range keys {
		a, ok := c.Auths[key]
		if !ok {
			a, ok = c.Auths[strings.TrimSuffix(key, "/")+"/"]
		}
		if !ok {
			continue
		}
		auth := &authn.AuthConfig{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken}
		if a.Auth != "" {
			if auth.Username, auth.Password, err = registries.SplitAuth(a.Auth); err != nil {
				return nil, fmt.Errorf("read %s: auths[%s].auth %w", file, key, err)
			}
		}
		return auth, nil
	}
	return nil, nil
}

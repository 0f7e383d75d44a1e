// Logins of private registries: for pulling, and for the kubelet.

package desired

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/drover-project/drover/rke1/config"
)

const dockerHub = "docker.io"

// logins are the registries by what is looked up: host, or host/path.
func logins(all []config.PrivateRegistry) map[string]config.PrivateRegistry {
	by := make(map[string]config.PrivateRegistry, len(all))
	for _, r := range all {
		by[r.Host()] = r
	}
	return by
}

// login is what Docker is told with a pull of an image: base64 of JSON, a secret; "" without a login.
//
// Wire source: rancher/rke docker GetImageRegistryConfig; Docker's X-Registry-Auth.
func (p *Plan) login(image string) string {
	r, ok := p.logins[registryOf(image)]
	if !ok || r.User == "" && r.Password == "" {
		return ""
	}
	text, err := json.Marshal(struct { // #nosec G117 -- what Docker takes as a login
		Username string `json:"username,omitempty"`
		Password string `json:"password,omitempty"`
	}{r.User, r.Password})
	if err != nil {
		return "" // texts always become JSON
	}
	return base64.URLEncoding.EncodeToString(text)
}

// registryOf is an image's registry, with what stands before the last two parts of its path.
func registryOf(image string) string {
	host, rest, found := strings.Cut(image, "/")
	if !found || !strings.ContainsAny(host, ".:") && host != "localhost" {
		host, rest = dockerHub, image
	}
	if host == "index."+dockerHub {
		host = dockerHub
	}
	parts := strings.Split(rest, "/")
	if len(parts) > 2 {
		host += "/" + strings.Join(parts[:len(parts)-2], "/")
	}
	return host
}

// dockerConfig is the kubelet's config.json in base64, a secret; "" without registries. A registry of AWS has a helper for its
// passwords, which the kubelet's image has, in place of a login.
//
// Wire source: rancher/rke docker GetKubeletDockerConfig.
func dockerConfig(logins map[string]config.PrivateRegistry) (string, error) {
	if len(logins) == 0 {
		return "", nil
	}
	type auth struct {
		Auth string `json:"auth,omitempty"`
	}
	file := struct {
		Auths   map[string]auth   `json:"auths,omitempty"`
		Helpers map[string]string `json:"credHelpers,omitempty"`
	}{map[string]auth{}, map[string]string{}}
	for host, r := range logins {
		if r.ECRCredentialPlugin != nil {
			file.Helpers[host] = "ecr-login"
			continue
		}
		file.Auths[host] = auth{base64.StdEncoding.EncodeToString([]byte(r.User + ":" + r.Password))}
	}
	text, err := json.Marshal(file)
	if err != nil {
		return "", fmt.Errorf("write the kubelet's config.json: %w", err)
	}
	return base64.StdEncoding.EncodeToString(text), nil
}

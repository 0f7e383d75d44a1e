// registries.yaml: where images really come from. The file belongs to k3s and RKE2,
// which may know more keys than we do, so unknown ones are left alone.

package image

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/plans/durable"
)

// maxRegistries bounds the file.
const maxRegistries = 1 << 20

// registries is the file's content.
type registries struct {
	Mirrors map[string]mirror         `yaml:"mirrors"`
	Configs map[string]registryConfig `yaml:"configs"`
}

// mirror is where images of one registry are looked for first.
type mirror struct {
	Endpoints []string `yaml:"endpoint"`
	Rewrites  rewrites `yaml:"rewrite"`
}

// rewrites change repository names for a mirror, in the order of the file.
type rewrites []rewrite

type rewrite struct {
	pattern *regexp.Regexp
	with    string
}

// registryConfig is how one registry or mirror is talked to.
type registryConfig struct {
	Auth *registryAuth `yaml:"auth"`
	TLS  *registryTLS  `yaml:"tls"`
}

type registryAuth struct {
	Username      string `yaml:"username"`
	Password      string `yaml:"password"`
	Auth          string `yaml:"auth"` // base64 of username:password
	IdentityToken string `yaml:"identity_token"`
}

type registryTLS struct {
	CAFile             string `yaml:"ca_file"`
	CertFile           string `yaml:"cert_file"`
	KeyFile            string `yaml:"key_file"`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify"`
}

// UnmarshalYAML reads a mapping and keeps its order, in which the patterns are tried.
func (r *rewrites) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind == yaml.ScalarNode && node.Tag == "!!null" {
		return nil
	}
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: rewrite is not a mapping of patterns to replacements", node.Line)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		pattern, err := regexp.Compile(key.Value)
		if err != nil {
			return fmt.Errorf("line %d: rewrite: %w", key.Line, err)
		}
		*r = append(*r, rewrite{pattern: pattern, with: value.Value})
	}
	return nil
}

// apply is the repository's name at the mirror: the first pattern that changes it counts.
func (r rewrites) apply(repository string) string {
	for _, w := range r {
		if changed := w.pattern.ReplaceAllString(repository, w.with); changed != repository {
			return changed
		}
	}
	return repository
}

// loadRegistries reads the first of the files that exists; none is no configuration.
func loadRegistries(files []string) (registries, error) {
	for _, file := range files {
		b, err := durable.ReadFile(file, maxRegistries)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return registries{}, fmt.Errorf("read the registries' configuration: %w", err)
		}
		r, err := parseRegistries(b)
		if err != nil {
			return registries{}, fmt.Errorf("read the registries' configuration %s: %w", file, err)
		}
		return r, nil
	}
	return registries{}, nil
}

func parseRegistries(b []byte) (registries, error) {
	var r registries
	if err := yaml.NewDecoder(bytes.NewReader(b)).Decode(&r); err != nil && !errors.Is(err, io.EOF) {
		return registries{}, err
	}
	for _, host := range sortedKeys(r.Mirrors) {
		for i, text := range r.Mirrors[host].Endpoints {
			if _, err := parseEndpoint(text); err != nil {
				return registries{}, fmt.Errorf("mirrors[%s].endpoint[%d]: %w", host, i, err)
			}
		}
	}
	for _, host := range sortedKeys(r.Configs) {
		if auth := r.Configs[host].Auth; auth != nil && auth.Auth != "" {
			if _, _, err := splitAuth(auth.Auth); err != nil {
				return registries{}, fmt.Errorf("configs[%s].auth.auth: %w", host, err)
			}
		}
	}
	return r, nil
}

// endpoint is one place to pull from.
type endpoint struct {
	host      string // with port where one was given
	path      string // in the place of /v2
	plainHTTP bool   // may be asked without TLS
	mirrorOf  string // the registry it stands in for; empty for that itself
	rewrites  rewrites
}

func (e endpoint) String() string {
	scheme := "https"
	if e.plainHTTP {
		scheme = "http"
	}
	return scheme + "://" + e.host
}

func parseEndpoint(text string) (endpoint, error) {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return endpoint{}, errors.New("is not a URL") // the error would repeat credentials in it
	case u.Scheme != "https" && u.Scheme != "http":
		return endpoint{}, fmt.Errorf("has the scheme %q, only https and http are known", u.Scheme)
	case u.Host == "":
		return endpoint{}, errors.New("names no host")
	case u.User != nil:
		return endpoint{}, errors.New("has credentials in it; they belong below configs")
	}
	e := endpoint{host: u.Host, path: path.Clean("/" + u.Path), plainHTTP: u.Scheme == "http"}
	if e.path == "/" {
		e.path = "/v2"
	}
	return e, nil
}

// endpoints are the places to pull an image of a registry from, in order: the mirrors of
// the first key that fits, then the registry itself.
func (r registries) endpoints(registry string) []endpoint {
	var all []endpoint
	for _, key := range registryKeys(registry) {
		m, ok := r.Mirrors[key]
		if !ok {
			continue
		}
		for _, text := range m.Endpoints {
			e, err := parseEndpoint(text)
			if err != nil {
				continue // refused when the file was read
			}
			if e.host != registry {
				e.mirrorOf = publicName(registry)
			}
			e.rewrites = m.Rewrites
			all = append(all, e)
		}
		break
	}
	return append(all, endpoint{host: registry, path: "/v2", plainHTTP: isLoopback(registry)})
}

// config is what is configured for an endpoint.
func (r registries) config(host string) registryConfig {
	for _, key := range registryKeys(host) {
		if c, ok := r.Configs[key]; ok {
			return c
		}
	}
	return registryConfig{}
}

// registryKeys are the keys of a registry in the file, the most particular first.
func registryKeys(host string) []string {
	keys := []string{host}
	if name := publicName(host); name != host {
		keys = append(keys, name)
	}
	if _, _, err := net.SplitHostPort(host); err != nil {
		keys = append(keys, host+":443")
	}
	return append(keys, "*")
}

// publicName is what people call a registry.
func publicName(host string) string {
	switch host {
	case "index.docker.io", "registry-1.docker.io":
		return "docker.io"
	}
	return host
}

// isLoopback says whether a registry is on this host, where plain HTTP can be listened to by nobody else.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

// splitAuth takes base64 of username:password apart. Its errors do not repeat any of it.
func splitAuth(text string) (username, password string, err error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", "", errors.New("is not base64")
	}
	username, password, ok := strings.Cut(strings.TrimRight(string(b), "\x00"), ":")
	if !ok {
		return "", "", errors.New("is not base64 of username:password")
	}
	return username, password, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

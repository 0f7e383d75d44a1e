// registries.yaml: where images really come from. The file belongs to k3s and RKE2,
// which may know more keys than we do, so unknown ones are left alone.

package image

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/drover-project/drover/plans/durable"
)

// maxRegistries bounds the file.
const maxRegistries = 1 << 20

// What one mirror may have.
const (
	maxEndpoints = 100
	maxRewrites  = 100
	maxPattern   = 1024 // bytes; patterns are RE2, so the time they take is linear
)

// registries is the file's content.
type registries struct {
	Mirrors map[string]mirror
	Configs map[string]registryConfig
}

// mirror is where images of one registry are looked for first.
type mirror struct {
	Endpoints []endpoint
	Rewrites  rewrites
}

// rewrites change repository names for a mirror, in the order of the file.
type rewrites []rewrite

type rewrite struct {
	pattern *regexp.Regexp
	with    string
}

// registryConfig is how one registry or mirror is talked to.
type registryConfig struct {
	Auth *registryAuth
	TLS  *registryTLS
}

type registryAuth struct {
	Username, Password string // those of auth, where that is given
	IdentityToken      string
}

type registryTLS struct {
	CAFile, CertFile, KeyFile placed
	InsecureSkipVerify        bool
}

// placed is a text and where it was written, for faults that show only later.
type placed struct{ text, where string }

func (p placed) fault(err error) error { return fmt.Errorf("%s: %w", p.where, err) }

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
		r, err := parseRegistries(file, b)
		if err != nil {
			return registries{}, fmt.Errorf("read the registries' configuration %s: %w", file, err)
		}
		return r, nil
	}
	return registries{}, nil
}

func parseRegistries(file string, b []byte) (registries, error) {
	var r registries
	top, err := document(file, b)
	if err != nil || top.empty() {
		return r, err
	}
	return r, top.fields(lenient, map[string]reader{
		"mirrors": func(n *node) error { return entries(n, &r.Mirrors, parseMirror) },
		"configs": func(n *node) error { return entries(n, &r.Configs, parseConfig) },
	})
}

func parseMirror(n *node) (m mirror, err error) {
	err = n.fields(lenient, map[string]reader{
		"endpoint": func(n *node) error {
			return n.items(maxEndpoints, func(n *node) error {
				text, err := n.text()
				if err != nil {
					return err
				}
				e, err := parseEndpoint(text)
				if err != nil {
					return n.fault("%v", err)
				}
				m.Endpoints = append(m.Endpoints, e)
				return nil
			})
		},
		"rewrite": func(n *node) error { return m.Rewrites.read(n) },
	})
	return m, err
}

// read keeps the order of the file, in which the patterns are tried.
func (r *rewrites) read(n *node) error {
	return n.pairs(func(key, value *node) error {
		if len(*r) >= maxRewrites {
			return key.fault("there are more than %d patterns", maxRewrites)
		}
		with, err := value.text()
		if err != nil {
			return err
		}
		if len(key.yaml.Value) > maxPattern || len(with) > maxPattern {
			return key.fault("the pattern or its replacement is longer than %d bytes", maxPattern)
		}
		pattern, err := regexp.Compile(key.yaml.Value)
		if err != nil {
			return key.fault("%v", err)
		}
		*r = append(*r, rewrite{pattern: pattern, with: with})
		return nil
	})
}

func parseConfig(n *node) (c registryConfig, err error) {
	err = n.fields(lenient, map[string]reader{
		"auth": func(n *node) error {
			c.Auth = &registryAuth{}
			return c.Auth.read(n)
		},
		"tls": func(n *node) error {
			c.TLS = &registryTLS{}
			return n.fields(lenient, map[string]reader{
				"ca_file":              into(&c.TLS.CAFile),
				"cert_file":            into(&c.TLS.CertFile),
				"key_file":             into(&c.TLS.KeyFile),
				"insecure_skip_verify": func(n *node) (err error) { c.TLS.InsecureSkipVerify, err = n.boolean(); return err },
			})
		},
	})
	if err == nil && c.TLS != nil && (c.TLS.CertFile.text == "") != (c.TLS.KeyFile.text == "") {
		return c, n.fault("cert_file and key_file belong together, and one of them is missing below tls")
	}
	return c, err
}

func (a *registryAuth) read(n *node) error {
	var both *node
	err := n.fields(lenient, map[string]reader{
		"username":       intoText(&a.Username),
		"password":       intoText(&a.Password),
		"identity_token": intoText(&a.IdentityToken),
		"auth":           func(n *node) error { both = n; return nil },
	})
	if err != nil || both == nil {
		return err
	}
	text, err := both.text()
	if err != nil || text == "" {
		return err
	}
	if a.Username, a.Password, err = splitAuth(text); err != nil {
		return both.fault("%v", err)
	}
	return nil
}

func into(p *placed) reader {
	return func(n *node) (err error) {
		p.text, err = n.text()
		p.where = fmt.Sprintf("%s: line %d: %s", n.file, n.yaml.Line, n.path)
		return err
	}
}

func intoText(p *string) reader {
	return func(n *node) (err error) {
		*p, err = n.text()
		return err
	}
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
		for _, e := range m.Endpoints {
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

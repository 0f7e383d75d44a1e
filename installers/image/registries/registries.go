// Package registries reads registries.yaml: where images really come from, and how each
// registry is talked to. The file belongs to k3s and RKE2, which may know more keys than
// drover does, so unknown ones are left alone.
package registries

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
	"github.com/drover-project/drover/plans/strictyaml"
)

// maxRegistries bounds the file.
const maxRegistries = 1 << 20

// What one mirror may have.
const (
	maxEndpoints = 100
	maxRewrites  = 100
	maxPattern   = 1024 // bytes; patterns are RE2, so the time they take is linear
)

// Registries is the file's content.
type Registries struct {
	// Mirrors and Configs have the keys of the file: a host, host:port, or *.
	Mirrors map[string]Mirror
	Configs map[string]Config
}

// Mirror is where images of one registry are looked for first.
type Mirror struct {
	Endpoints []Endpoint
	Rewrites  Rewrites
}

// Rewrites change repository names for a mirror, in the order of the file.
type Rewrites []rewrite

type rewrite struct {
	pattern *regexp.Regexp
	with    string
}

// Config is how one registry or mirror is talked to.
type Config struct {
	Auth *Auth
	TLS  *TLS
}

// Auth is whom this host logs in as.
type Auth struct {
	Username, Password string // those of auth, where that is given
	IdentityToken      string
}

// TLS is whom this host trusts, and as whom it shows itself; paths are on this host.
type TLS struct {
	CAFile, CertFile, KeyFile Placed
	InsecureSkipVerify        bool
}

// Placed is a text and where it was written, for faults that show only later.
type Placed struct{ text, where string }

func (p Placed) fault(err error) error { return fmt.Errorf("%s: %w", p.where, err) }

// Apply is the repository's name at the mirror: the first pattern that changes it counts.
func (r Rewrites) Apply(repository string) string {
	for _, w := range r {
		if changed := w.pattern.ReplaceAllString(repository, w.with); changed != repository {
			return changed
		}
	}
	return repository
}

// Load reads the first of the files that exists; none means no configuration. The error names the file that cannot be read, with the line where its
// text is wrong.
func Load(files []string) (Registries, error) {
	for _, file := range files {
		b, err := durable.ReadFile(file, maxRegistries)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Registries{}, fmt.Errorf("read the registries' configuration: %w", err)
		}
		r, err := Parse(file, b)
		if err != nil {
			return Registries{}, fmt.Errorf("read the registries' configuration %s: %w", file, err)
		}
		return r, nil
	}
	return Registries{}, nil
}

// source is a file that may hold credentials; callers put its name before errors.
var source = strictyaml.Source{Private: true, Limits: strictyaml.Limits{Values: 50_000}}

// Parse reads the text of a file of that name. The error is a *strictyaml.Error with line and path.
func Parse(file string, b []byte) (Registries, error) {
	var r Registries
	top, err := strictyaml.ReadOne(source, b)
	if err != nil || top.Empty() {
		return r, err
	}
	return r, top.Root().Fields(strictyaml.Readers{
		"mirrors": func(n *strictyaml.Node) error { return strictyaml.Entries(n, &r.Mirrors, parseMirror) },
		"configs": func(n *strictyaml.Node) error {
			return strictyaml.Entries(n, &r.Configs, func(n *strictyaml.Node) (Config, error) { return parseConfig(file, n) })
		},
	})
}

func parseMirror(n *strictyaml.Node) (m Mirror, err error) {
	err = n.Fields(strictyaml.Readers{
		"endpoint": func(n *strictyaml.Node) error {
			return n.Items(maxEndpoints, func(n *strictyaml.Node) error {
				text, err := n.Text()
				if err != nil {
					return err
				}
				e, err := parseEndpoint(text)
				if err != nil {
					return n.Fault("%v", err)
				}
				m.Endpoints = append(m.Endpoints, e)
				return nil
			})
		},
		"rewrite": func(n *strictyaml.Node) error { return m.Rewrites.read(n) },
	})
	return m, err
}

// read keeps the order of the file, in which the patterns are tried.
func (r *Rewrites) read(n *strictyaml.Node) error {
	return n.Pairs(func(key string, at, value *strictyaml.Node) error {
		if len(*r) >= maxRewrites {
			return at.Fault("there are more than %d patterns", maxRewrites)
		}
		with, err := value.Text()
		if err != nil {
			return err
		}
		if len(key) > maxPattern || len(with) > maxPattern {
			return at.Fault("the pattern or its replacement is longer than %d bytes", maxPattern)
		}
		pattern, err := regexp.Compile(key)
		if err != nil {
			return at.Fault("%v", err)
		}
		*r = append(*r, rewrite{pattern: pattern, with: with})
		return nil
	})
}

func parseConfig(file string, n *strictyaml.Node) (c Config, err error) {
	err = n.Fields(strictyaml.Readers{
		"auth": func(n *strictyaml.Node) error {
			c.Auth = &Auth{}
			return c.Auth.read(n)
		},
		"tls": func(n *strictyaml.Node) error {
			c.TLS = &TLS{}
			return n.Fields(strictyaml.Readers{
				"ca_file":              into(file, &c.TLS.CAFile),
				"cert_file":            into(file, &c.TLS.CertFile),
				"key_file":             into(file, &c.TLS.KeyFile),
				"insecure_skip_verify": func(n *strictyaml.Node) (err error) { c.TLS.InsecureSkipVerify, err = n.Bool(); return err },
			})
		},
	})
	if err == nil && c.TLS != nil && (c.TLS.CertFile.text == "") != (c.TLS.KeyFile.text == "") {
		return c, n.Fault("cert_file and key_file belong together, and one of them is missing below tls")
	}
	return c, err
}

func (a *Auth) read(n *strictyaml.Node) error {
	var both *strictyaml.Node
	err := n.Fields(strictyaml.Readers{
		"username":       strictyaml.TextInto(&a.Username),
		"password":       strictyaml.TextInto(&a.Password),
		"identity_token": strictyaml.TextInto(&a.IdentityToken),
		"auth":           func(n *strictyaml.Node) error { both = n; return nil },
	})
	if err != nil || both == nil {
		return err
	}
	text, err := both.Text()
	if err != nil || text == "" {
		return err
	}
	if a.Username, a.Password, err = SplitAuth(text); err != nil {
		return both.Fault("%v", err)
	}
	return nil
}

func into(file string, p *Placed) func(*strictyaml.Node) error {
	return func(n *strictyaml.Node) (err error) {
		p.text, err = n.Text()
		p.where = fmt.Sprintf("%s: line %d: %s", file, n.Line(), n.Path)
		return err
	}
}

// Endpoint is one place to pull from.
type Endpoint struct {
	Host      string // with port where one was given
	Path      string // in the place of /v2
	PlainHTTP bool   // may be asked without TLS
	MirrorOf  string // the registry it stands in for; empty for that itself
	Rewrites  Rewrites
}

// String is the endpoint as a URL without a path.
func (e Endpoint) String() string {
	scheme := "https"
	if e.PlainHTTP {
		scheme = "http"
	}
	return scheme + "://" + e.Host
}

func parseEndpoint(text string) (Endpoint, error) {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return Endpoint{}, errors.New("is not a URL") // the error would repeat credentials in it
	case u.Scheme != "https" && u.Scheme != "http":
		return Endpoint{}, fmt.Errorf("has the scheme %q, only https and http are known", u.Scheme)
	case u.Host == "":
		return Endpoint{}, errors.New("names no host")
	case u.User != nil:
		return Endpoint{}, errors.New("has credentials in it; they belong below configs")
	}
	e := Endpoint{Host: u.Host, Path: path.Clean("/" + u.Path), PlainHTTP: u.Scheme == "http"}
	if e.Path == "/" {
		e.Path = "/v2"
	}
	return e, nil
}

// Endpoints are the places to pull an image of a registry from, in order: the mirrors of
// the first key that fits, then the registry itself.
func (r Registries) Endpoints(registry string) []Endpoint {
	var all []Endpoint
	for _, key := range registryKeys(registry) {
		m, ok := r.Mirrors[key]
		if !ok {
			continue
		}
		for _, e := range m.Endpoints {
			if e.Host != registry {
				e.MirrorOf = PublicName(registry)
			}
			e.Rewrites = m.Rewrites
			all = append(all, e)
		}
		break
	}
	return append(all, Endpoint{Host: registry, Path: "/v2", PlainHTTP: isLoopback(registry)})
}

// Config is what is configured for a host, with its port where it has one.
func (r Registries) Config(host string) Config {
	for _, key := range registryKeys(host) {
		if c, ok := r.Configs[key]; ok {
			return c
		}
	}
	return Config{}
}

// registryKeys are the keys of a registry in the file, the most particular first.
func registryKeys(host string) []string {
	keys := []string{host}
	if name := PublicName(host); name != host {
		keys = append(keys, name)
	}
	if _, _, err := net.SplitHostPort(host); err != nil {
		keys = append(keys, host+":443")
	}
	return append(keys, "*")
}

// PublicName is what people call a registry.
func PublicName(host string) string {
	switch host {
	case "index.docker.io", "registry-1.docker.io":
		return "docker.io"
	}
	return host
}

// isLoopback says whether a registry is on this host, where plain HTTP cannot be listened to by another machine.
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

// SplitAuth takes base64 of username:password apart. Its errors do not repeat any of it.
func SplitAuth(text string) (username, password string, err error) {
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

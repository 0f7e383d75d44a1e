// Credential provider plugins, as the kubelet has them: which plugins there are, and for
// which images. (Kubernetes: CredentialProviderConfig of kubelet.config.k8s.io.)

package credentials

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/plans/strictyaml"
)

// Plugins say where credential provider plugins are.
type Plugins struct {
	// Config is a CredentialProviderConfig; without the file there are no plugins.
	Config string
	// Dir has the plugins' programs.
	Dir string
	// Env is the environment that a plugin starts from, as of os.Environ.
	Env []string
	// Timeout ends a plugin that takes longer; default 1 min.
	Timeout time.Duration
}

const (
	maxPlugins       = 100
	maxPluginStrings = 1000
	configGroup      = "kubelet.config.k8s.io/"
	providerGroup    = "credentialprovider.kubelet.k8s.io/"
)

var versions = []string{"v1", "v1beta1", "v1alpha1"}

// plugin is one entry of the configuration.
type plugin struct {
	name       string
	match      []string
	keepFor    time.Duration
	apiVersion string
	args       []string
	env        []string // name=value
}

// loadPlugins reads the configuration; nil when there is none.
func loadPlugins(file string) ([]plugin, error) {
	if file == "" {
		return nil, nil
	}
	if err := ownFile(file); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the configuration of credential plugins: %w", err)
	}
	b, err := durable.ReadFile(file, maxConfig)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of credential plugins: %w", err)
	}
	all, err := parsePlugins(file, b)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of credential plugins %s: %w", file, err)
	}
	return all, nil
}

// ownFile refuses a file that others could write: it decides what runs as this user.
func ownFile(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", file)
	}
	if uid, ok := ownerOf(info); !ok || uid != 0 && uid != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s can be written by others than root, and it decides what runs as root (chown root %s && chmod go-w %s)", file, file, file)
	}
	return nil
}

func parsePlugins(file string, b []byte) (all []plugin, err error) {
	top, err := strictyaml.ReadOne(strictyaml.Source{Private: true, Limits: strictyaml.Limits{Values: 50_000}}, b)
	if err != nil {
		return nil, err
	}
	var version, kind string
	err = top.Root().OnlyFields(strictyaml.Readers{
		"apiVersion": oneOf(&version, configGroup),
		"kind":       strictyaml.TextInto(&kind),
		"providers": func(n *strictyaml.Node) error {
			return n.Items(maxPlugins, func(n *strictyaml.Node) error {
				p, err := parsePlugin(n)
				if err == nil && slices.ContainsFunc(all, func(q plugin) bool { return q.name == p.name }) {
					err = n.Fault("the name %q is there twice", p.name)
				}
				all = append(all, p)
				return err
			})
		},
	})
	switch {
	case err != nil:
		return nil, err
	case version == "":
		return nil, fmt.Errorf("apiVersion is missing, expected is %sv1", configGroup)
	case kind != "CredentialProviderConfig":
		return nil, fmt.Errorf("kind is %q, expected is CredentialProviderConfig", shorten(kind))
	case len(all) == 0:
		return nil, errors.New("providers is missing or empty, expected is at least one")
	}
	return all, nil
}

func parsePlugin(n *strictyaml.Node) (p plugin, err error) {
	var wait *strictyaml.Node
	err = n.OnlyFields(strictyaml.Readers{
		"name":       strictyaml.TextInto(&p.name),
		"apiVersion": oneOf(&p.apiVersion, providerGroup),
		"matchImages": func(n *strictyaml.Node) error {
			return texts(n, &p.match, func(n *strictyaml.Node, text string) error {
				if _, err := parsePattern(text); err != nil {
					return n.Fault("%v", err)
				}
				return nil
			})
		},
		"defaultCacheDuration": func(n *strictyaml.Node) (err error) {
			wait = n
			p.keepFor, err = duration(n)
			return err
		},
		"args": func(n *strictyaml.Node) error { return texts(n, &p.args, nil) },
		"env": func(n *strictyaml.Node) error {
			return n.Items(maxPluginStrings, func(n *strictyaml.Node) error { return p.variable(n) })
		},
		"tokenAttributes": func(n *strictyaml.Node) error {
			if n.Empty() {
				return nil
			}
			return n.Fault("tokens of service accounts are for pods; no plugin gets one for an image of an instruction")
		},
	})
	switch {
	case err != nil:
		return p, err
	case p.name == "" || p.name == "." || p.name == ".." || strings.ContainsAny(p.name, "/\\ \t\n\x00") || len(p.name) > 255:
		return p, n.Fault("name %q is not the name of a program in the plugins' directory, without a path and blanks", shorten(p.name))
	case p.apiVersion == "":
		return p, n.Fault("apiVersion is missing, expected is %sv1", providerGroup)
	case len(p.match) == 0:
		return p, n.Fault("matchImages is missing or empty, expected are images such as registry.example.com")
	case wait == nil:
		return p, n.Fault("defaultCacheDuration is missing, expected is a duration such as 12h, or 0s")
	}
	return p, nil
}

// variable reads one entry of env.
func (p *plugin) variable(n *strictyaml.Node) error {
	var name, value string
	err := n.OnlyFields(strictyaml.Readers{"name": strictyaml.TextInto(&name), "value": strictyaml.TextInto(&value)})
	if err == nil && (name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0)) {
		err = n.Fault("name is missing or is not a valid name of a variable")
	}
	p.env = append(p.env, name+"="+value)
	return err
}

// duration is of Go's form.
func duration(n *strictyaml.Node) (time.Duration, error) {
	text, err := n.Text()
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, n.Fault("a duration such as 12h is expected, or 0s")
	}
	return d, nil
}

// oneOf reads an apiVersion of a group.
func oneOf(into *string, group string) func(*strictyaml.Node) error {
	return func(n *strictyaml.Node) error {
		text, err := n.Text()
		if err != nil {
			return err
		}
		version, ok := strings.CutPrefix(text, group)
		if !ok || !slices.Contains(versions, version) {
			return n.Fault("%q is not known, expected is %s with %s", shorten(text), group, strings.Join(versions, ", "))
		}
		*into = text
		return nil
	}
}

func texts(n *strictyaml.Node, into *[]string, check func(*strictyaml.Node, string) error) error {
	return n.Items(maxPluginStrings, func(n *strictyaml.Node) error {
		text, err := n.Text()
		if err == nil && check != nil {
			err = check(n, text)
		}
		*into = append(*into, text)
		return err
	})
}

func shorten(text string) string { return Redact(text, nil) }

// pattern is what images are compared with: parts of the host that may have globs, a port
// and the beginning of a path. It has to be like the kubelet's: the same number of parts,
// the same port or none in both, and a path that begins like that.
type pattern struct {
	host []string
	port string
	path string
}

func parsePattern(text string) (pattern, error) {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "https://"), "http://")
	host, rest, _ := strings.Cut(text, "/")
	p := pattern{path: "/" + rest}
	if name, port, err := net.SplitHostPort(host); err == nil {
		host, p.port = name, port
	}
	if host == "" || strings.ContainsAny(host, " @?#") || strings.ContainsAny(p.port+rest, "*? ") {
		return pattern{}, errors.New("it is not of the form host, host:port or host/path, with * only in the host")
	}
	p.host = strings.Split(host, ".")
	for _, part := range p.host {
		if _, err := path.Match(part, ""); err != nil {
			return pattern{}, errors.New("its host is not a pattern of * and letters")
		}
	}
	return p, nil
}

// matches says whether an image, without tag and digest, is meant by a pattern.
func matches(text, image string) bool {
	p, err := parsePattern(text)
	if err != nil {
		return false
	}
	i, err := parsePattern(image)
	if err != nil || p.port != i.port || len(p.host) != len(i.host) || !strings.HasPrefix(i.path, p.path) {
		return false
	}
	for k, part := range p.host {
		if ok, err := path.Match(part, i.host[k]); !ok || err != nil {
			return false
		}
	}
	return true
}

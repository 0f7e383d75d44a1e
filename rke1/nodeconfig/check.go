// What a node config may hold. Which images run and which paths they see is the
// server's right; what would confuse Docker, this agent or a person's log is not.

package nodeconfig

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/docker/go-connections/nat"
)

// Bounds of a node config.
const (
	maxProcesses = 64
	maxFiles     = 256
	maxCerts     = 512
	maxEntries   = 512      // of one list of a process
	maxEntry     = 64 << 10 // bytes of one entry: an argument may be a whole configuration
	maxPath      = 4096
	maxInterval  = 24 * 60 * 60 // seconds
)

var (
	containerName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$`) })
	imageName     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._:/@-]{0,511}$`) })
	restartPolicy = regexp.MustCompile(`^(|no|always|unless-stopped|on-failure(:[0-9]{1,4})?)$`)
)

func (c *NodeConfig) check() error {
	switch {
	case len(c.Processes) > maxProcesses:
		return fmt.Errorf("processes has %d entries, at most %d are taken", len(c.Processes), maxProcesses)
	case len(c.Files) > maxFiles:
		return fmt.Errorf("files has %d entries, at most %d are taken", len(c.Files), maxFiles)
	case c.NodeVersion < 0:
		return fmt.Errorf("nodeVersion is %d, versions begin at 1", c.NodeVersion)
	case c.AgentCheckInterval < 0 || c.AgentCheckInterval > maxInterval:
		return fmt.Errorf("agentCheckInterval is %d, seconds from 0 to %d are taken", c.AgentCheckInterval, maxInterval)
	}
	for key, p := range c.Processes {
		if !containerName().MatchString(key) {
			return fmt.Errorf("processes has the name %.40q, which is not a valid name of a container", key)
		}
		if err := p.check(); err != nil {
			return fmt.Errorf("processes[%s]: %w", key, err)
		}
		if p.Name != key {
			return fmt.Errorf("processes[%s]: name is %.40q; key and name have to be the same", key, p.Name)
		}
	}
	for i, f := range c.Files {
		if err := checkPath(f.Name); err != nil {
			return fmt.Errorf("files[%d]: name %w", i, err)
		}
	}
	if err := c.checkCerts(); err != nil {
		return err
	}
	_, err := c.Contents()
	return err
}

func (c *NodeConfig) checkCerts() error {
	certs, err := c.Certificates()
	if err != nil {
		return err
	}
	if len(certs) > maxCerts {
		return fmt.Errorf("certs has %d entries, at most %d are taken", len(certs), maxCerts)
	}
	for name, cert := range certs {
		for _, part := range []struct{ field, path, text string }{
			{"path", cert.Path, cert.CertificatePEM}, {"keyPath", cert.KeyPath, cert.KeyPEM}, {"configPath", cert.ConfigPath, cert.Config},
		} {
			if part.text == "" {
				continue
			}
			if err := checkPath(part.path); err != nil {
				return fmt.Errorf("certs[%.60q]: %s %w", name, part.field, err)
			}
		}
	}
	return nil
}

func checkPath(p string) error {
	switch {
	case len(p) > maxPath:
		return fmt.Errorf("is %d bytes long, at most %d are taken", len(p), maxPath)
	case !path.IsAbs(p) || path.Clean(p) != p || p == "/":
		return fmt.Errorf("%.60q is not an absolute path of a file, with no . or .. in it", p)
	case strings.ContainsFunc(p, unprintable):
		return errors.New("has unprintable characters in it")
	}
	return nil
}

func unprintable(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }

func (p *Process) check() error {
	switch {
	case !imageName().MatchString(p.Image):
		return fmt.Errorf("image %.60q is not a valid name of an image", p.Image)
	case !restartPolicy.MatchString(p.RestartPolicy):
		return fmt.Errorf("restartPolicy %.40q is none of no, always, unless-stopped and on-failure[:N]", p.RestartPolicy)
	case len(p.Labels) > maxEntries:
		return fmt.Errorf("labels has %d entries, at most %d are taken", len(p.Labels), maxEntries)
	}
	for _, one := range []struct {
		field string
		list  []string
	}{{"command", p.Command}, {"args", p.Args}, {"env", p.Env}, {"volumesFrom", p.VolumesFrom}, {"binds", p.Binds}, {"publish", p.Publish}} {
		if err := checkList(one.field, one.list); err != nil {
			return err
		}
	}
	for i, e := range p.Env {
		if e == "" || strings.HasPrefix(e, "=") {
			return fmt.Errorf("env[%d] is not of the form NAME=value", i)
		}
	}
	if _, _, err := nat.ParsePortSpecs(p.Publish); err != nil {
		return errors.New("publish has an entry that is not of the form [address:]port:port[/protocol]")
	}
	for _, one := range []struct{ field, text string }{{"networkMode", p.NetworkMode}, {"pidMode", p.PidMode}, {"user", p.User}} {
		if len(one.text) > 256 || strings.ContainsFunc(one.text, unprintable) {
			return fmt.Errorf("%s is too long or has unprintable characters in it", one.field)
		}
	}
	return checkAuth(p.ImageRegistryAuthConfig)
}

func checkList(field string, list []string) error {
	if len(list) > maxEntries {
		return fmt.Errorf("%s has %d entries, at most %d are taken", field, len(list), maxEntries)
	}
	for i, s := range list {
		if len(s) > maxEntry || strings.ContainsRune(s, 0) {
			return fmt.Errorf("%s[%d] is longer than %d bytes or has a zero byte in it", field, i, maxEntry)
		}
	}
	return nil
}

// checkAuth takes both base64 alphabets, as Docker does.
func checkAuth(text string) error {
	if text == "" {
		return nil
	}
	b, err := base64.URLEncoding.DecodeString(text)
	if err != nil {
		b, err = base64.StdEncoding.DecodeString(text)
	}
	if err != nil || !json.Valid(b) {
		return errors.New("imageRegistryAuthConfig is not base64 of JSON")
	}
	return nil
}

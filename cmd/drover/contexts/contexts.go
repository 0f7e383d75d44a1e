// Package contexts is which server drover's commands ask: where it is, whom to trust and which token to show, by the command line, the
// environment, the file of logins, or the data directory of a server on this host.
package contexts

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/config"
	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/plans/strictyaml"
)

// Context is one server with what it takes to talk to it.
type Context struct {
	Server string `json:"server" yaml:"server"`
	Token  string `json:"token" yaml:"token"`
	// CA is the PEM of the authority to trust; empty trusts the system's.
	CA string `json:"ca" yaml:"ca,omitempty"`
}

// Config is what a client needs of it.
func (c Context) Config() client.Config {
	return client.Config{Server: c.Server, Token: c.Token, CA: c.CA}
}

// File is the file of contexts in a person's configuration directory.
type File struct {
	Current  string             `json:"current" yaml:"current"`
	Contexts map[string]Context `json:"contexts" yaml:"contexts"`
}

// FilePath is where the file is: DROVER_CONFIG, or drover/config.yaml in the configuration directory. The error says which variables are missing.
func FilePath(environ func(string) string) (string, error) {
	if path := environ("DROVER_CONFIG"); path != "" {
		return path, nil
	}
	dir := environ("XDG_CONFIG_HOME")
	if dir == "" {
		home := environ("HOME")
		if home == "" {
			return "", errors.New("find the file of contexts: neither DROVER_CONFIG nor HOME is set")
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "drover", "config.yaml"), nil
}

// ReadFile reads the contexts; a missing file has none. The errors are those of reading it, and a *strictyaml.Error where it is not of the form that
// WriteFile writes.
func ReadFile(path string) (File, error) {
	f := File{Contexts: map[string]Context{}}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("read contexts: %w", err)
	}
	doc, err := strictyaml.ReadOne(strictyaml.Source{Private: true}, b)
	if err != nil {
		return f, fmt.Errorf("read contexts: %s is not YAML of the form that `drover login` writes: %w", path, err)
	}
	if errs := doc.Decode(&f, strictyaml.Options{Ignore: strictyaml.IgnoreAll, AsWritten: true}); errs != nil {
		return f, fmt.Errorf("read contexts: %s is not YAML of the form that `drover login` writes: %w", path, errs)
	}
	if f.Contexts == nil {
		f.Contexts = map[string]Context{}
	}
	return f, nil
}

// WriteFile replaces the file; it holds tokens, so it is 0600. The errors are those of making its directory and of writing.
func WriteFile(path string, f File) error {
	b, err := yaml.Marshal(f)
	if err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	if err := durable.WriteFile(path, b, 0o600); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	return nil
}

// Given is what the command line says; empty fields say nothing.
type Given struct {
	Server, Token, CAFile, Context, DataDir string
	// DataDirAsked says that DataDir was asked for and is not just the usual place: it then
	// beats a remembered context.
	DataDirAsked bool
}

// LocalURLFile is where a server on this host writes the address it listens on, below its data directory.
const LocalURLFile = "local-url"

// Resolve finds the server to talk to: what the command line says, then DROVER_SERVER,
// DROVER_TOKEN and DROVER_CA_FILE, then the file of contexts, then, on the server's own
// host, its data directory. The error names what is missing or cannot be read.
func Resolve(given Given, environ func(string) string) (Context, error) {
	first := func(values ...string) string {
		for _, v := range values {
			if v != "" {
				return v
			}
		}
		return ""
	}
	c := Context{Server: strings.TrimRight(first(given.Server, environ("DROVER_SERVER")), "/"), Token: first(given.Token, environ("DROVER_TOKEN"))}
	if file := first(given.CAFile, environ("DROVER_CA_FILE")); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return c, fmt.Errorf("read the authority to trust: %w", err)
		}
		c.CA = string(pem)
	}
	if c.Server != "" && c.Token != "" {
		return withCA(c, environ), nil
	}
	given.Server = c.Server
	sources := []func(Given, func(string) string) (Context, bool, error){fromFile, fromDataDir}
	if given.DataDirAsked && given.Context == "" {
		slices.Reverse(sources)
	}
	for _, source := range sources {
		found, ok, err := source(given, environ)
		if err != nil {
			return c, err
		}
		if !ok {
			continue
		}
		if c.Server != "" && c.Server != found.Server {
			continue // that token is for another server
		}
		return Context{Server: found.Server, Token: first(c.Token, found.Token), CA: first(c.CA, found.CA)}, nil
	}
	if c.Server != "" {
		return c, fmt.Errorf("there is no login to %s; type: drover login %s --username NAME, or set DROVER_TOKEN", c.Server, c.Server)
	}
	return c, errors.New("no server is known; type: drover login https://SERVER --username NAME, or set DROVER_SERVER and DROVER_TOKEN, or run this on the server's host as root")
}

// withCA adds the authority that a context remembers of the same server, where none was given.
func withCA(c Context, environ func(string) string) Context {
	if c.CA != "" {
		return c
	}
	path, err := FilePath(environ)
	if err != nil {
		return c
	}
	f, err := ReadFile(path)
	if err != nil {
		return c // the file is not needed here
	}
	for _, known := range f.Contexts {
		if known.Server == c.Server {
			c.CA = known.CA
		}
	}
	return c
}

func fromFile(given Given, environ func(string) string) (Context, bool, error) {
	path, err := FilePath(environ)
	if err != nil {
		return Context{}, false, nil
	}
	f, err := ReadFile(path)
	if err != nil {
		return Context{}, false, err
	}
	name := f.Current
	if given.Context != "" {
		name = given.Context
	}
	c, ok := f.Contexts[name]
	if given.Context == "" && given.Server != "" && c.Server != given.Server {
		// The current login is to another server; there may be one to this.
		for _, other := range slices.Sorted(maps.Keys(f.Contexts)) {
			if f.Contexts[other].Server == given.Server {
				return f.Contexts[other], true, nil
			}
		}
	}
	if !ok && given.Context != "" {
		return c, false, &ContextError{Name: given.Context, Path: path}
	}
	return c, ok, nil
}

// ContextError reports that no context has the name that was given.
type ContextError struct{ Name, Path string }

// Error says where it was looked for.
func (e *ContextError) Error() string {
	return fmt.Sprintf("there is no context %q in %s; `drover context ls` shows those there are", e.Name, e.Path)
}

func fromDataDir(given Given, _ func(string) string) (Context, bool, error) {
	url, err := os.ReadFile(filepath.Join(given.DataDir, LocalURLFile))
	if err != nil {
		return Context{}, false, nil
	}
	token, err := os.ReadFile(filepath.Join(given.DataDir, "admin-token"))
	if errors.Is(err, fs.ErrPermission) {
		return Context{}, false, fmt.Errorf("a server runs on this host, but only root reads its token (%s); use sudo, or `drover login`", filepath.Join(given.DataDir, "admin-token"))
	}
	if err != nil {
		return Context{}, false, nil
	}
	c := Context{Server: strings.TrimSpace(string(url)), Token: strings.TrimSpace(string(token))}
	if ca, err := os.ReadFile(filepath.Join(given.DataDir, "tls", "ca.crt")); err == nil {
		c.CA = string(ca)
	}
	return c, true, nil
}

// Advice is what a person can do about an error of a client; "" where there is nothing to say.
func Advice(err error) string {
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusUnauthorized && refused.Code != "" {
		return "; type: drover login " + refused.Server + " --username NAME"
	}
	if _, ok := errors.AsType[*client.TrustError](err); ok {
		return "; give its authority with --ca-file or DROVER_CA_FILE, or log in with --ca-checksum"
	}
	if _, ok := errors.AsType[*client.RedirectError](err); ok {
		return "; if that is the server, name it with --server or `drover login`"
	}
	if _, ok := errors.AsType[*client.ReachError](err); ok && errors.Is(err, syscall.ECONNREFUSED) {
		return ": no server listens there; start one (drover server), or name another with --server or `drover login`"
	}
	return ""
}

// InstalledDataDir is the data directory of the server that is installed on this host, where its configuration names one; empty otherwise.
func InstalledDataDir() string {
	file, err := config.Read(config.Path, false)
	if err != nil {
		return "" // the server itself says what is wrong with it
	}
	return file.Text("data-dir")
}

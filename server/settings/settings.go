// Package settings is what an administrator can set at run time: a fixed list of
// names with defaults, kept in the store when they differ, and overruled by the
// environment of the server. Nothing else may invent a setting.
package settings

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// Source says where the value of a setting comes from.
type Source string

// The sources, weakest first.
const (
	SourceDefault     Source = "default"
	SourceStore       Source = "db"
	SourceEnvironment Source = "env"
)

// Setting is one setting as it is now.
type Setting struct {
	Name string
	// About says what it does, in Markdown.
	About   string
	Value   string
	Default string
	Source  Source
	// Customized says that Value differs from Default.
	Customized bool
	// ReadOnly says that Set refuses it: the environment overrules it, or it is never writable.
	ReadOnly bool
}

// Defaults are the values that only the running server knows.
type Defaults struct {
	// ServerURL is the external https URL; empty until an administrator sets it.
	ServerURL string
	// CACerts is the PEM of the CA that signed the server's certificate; empty when it is a public one.
	CACerts string
	// Version is drover's release.
	Version string
}

// UnknownError says that there is no setting of that name.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string { return fmt.Sprintf("there is no setting %q", e.Name) }

// ReadOnlyError says that a setting cannot be written, and why.
type ReadOnlyError struct{ Name, Reason string }

func (e *ReadOnlyError) Error() string {
	return fmt.Sprintf("setting %s cannot be written: %s", e.Name, e.Reason)
}

// InvalidError says that a value is not allowed, and which are.
type InvalidError struct{ Name, Value, Reason string }

func (e *InvalidError) Error() string {
	return fmt.Sprintf("setting %s: %q %s", e.Name, e.Value, e.Reason)
}

// Settings are all settings of a server.
type Settings struct {
	stored      *store.Collection[records.Setting]
	definitions map[string]definition
	environment map[string]string // by setting name
}

// New knows all settings. environ is os.Getenv; the variable CATTLE_<NAME>, in upper
// case with dashes as underscores, overrules the store and the default. It is read once.
func New(stored *store.Collection[records.Setting], environ func(string) string, defaults Defaults) *Settings {
	s := &Settings{stored: stored, definitions: map[string]definition{}, environment: map[string]string{}}
	for _, d := range definitions(defaults) {
		s.definitions[d.name] = d
		if value := environ(Variable(d.name)); value != "" {
			s.environment[d.name] = value
		}
	}
	return s
}

// Variable is the environment variable that overrules a setting.
func Variable(name string) string {
	return "CATTLE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// Check returns an *InvalidError for the first value of the environment or the
// command line that a person could not have set. A server that starts calls it.
func (s *Settings) Check() error {
	for _, setting := range s.List() {
		if err := s.definitions[setting.Name].validate(setting.Value); err != nil {
			if setting.Source == SourceEnvironment {
				return fmt.Errorf("environment variable %s: %w", Variable(setting.Name), err)
			}
			return err
		}
	}
	return nil
}

// Get is one setting; a setting that does not exist has an empty Name.
func (s *Settings) Get(name string) Setting {
	d, ok := s.definitions[name]
	if !ok {
		return Setting{}
	}
	setting := Setting{Name: name, About: d.about, Value: d.value, Default: d.value, Source: SourceDefault, ReadOnly: d.readOnly != ""}
	if stored, ok := s.stored.Get(name); ok && stored.Value.Value != "" {
		setting.Value, setting.Source = stored.Value.Value, SourceStore
	}
	if value, ok := s.environment[name]; ok {
		setting.Value, setting.Source, setting.ReadOnly = value, SourceEnvironment, true
	}
	setting.Customized = setting.Value != setting.Default
	return setting
}

// Lookup is Get with an *UnknownError for a setting that does not exist.
func (s *Settings) Lookup(name string) (Setting, error) {
	setting := s.Get(name)
	if setting.Name == "" {
		return Setting{}, &UnknownError{Name: name}
	}
	return setting, nil
}

// List is every setting, sorted by name.
func (s *Settings) List() []Setting {
	list := make([]Setting, 0, len(s.definitions))
	for name := range s.definitions {
		list = append(list, s.Get(name))
	}
	slices.SortFunc(list, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// CheckValue says whether Set would take a value. Its errors are *UnknownError, *ReadOnlyError and *InvalidError.
func (s *Settings) CheckValue(name, value string) error {
	d, ok := s.definitions[name]
	if !ok {
		return &UnknownError{Name: name}
	}
	if d.readOnly != "" {
		return &ReadOnlyError{Name: name, Reason: d.readOnly}
	}
	if _, ok := s.environment[name]; ok {
		return &ReadOnlyError{Name: name, Reason: "the server's environment variable " + Variable(name) + " overrules it; change it there"}
	}
	return d.validate(value)
}

// Set stores a value; the empty one returns to the default. Its errors are those of CheckValue, or the store's.
func (s *Settings) Set(ctx context.Context, name, value string) error {
	if err := s.CheckValue(name, value); err != nil {
		return err
	}
	if err := s.write(ctx, records.Setting{Name: name, Value: value}); err != nil {
		return fmt.Errorf("store setting %s: %w", name, err)
	}
	return nil
}

func (s *Settings) write(ctx context.Context, setting records.Setting) error {
	var missing *store.NotFoundError
	var exists *store.ExistsError
	if setting.Value == "" {
		if err := s.stored.Delete(ctx, setting.Name, 0); err != nil && !errors.As(err, &missing) {
			return err
		}
		return nil
	}
	for {
		_, err := s.stored.Modify(ctx, setting.Name, func(old records.Setting) (records.Setting, error) {
			if old == setting {
				return old, store.ErrUnchanged
			}
			return setting, nil
		})
		if !errors.As(err, &missing) {
			return err
		}
		if _, err = s.stored.Create(ctx, setting.Name, setting); !errors.As(err, &exists) {
			return err
		}
	}
}

// ServerURL is the external https URL without a trailing slash; empty while it is not set.
func (s *Settings) ServerURL() string { return s.Get("server-url").Value }

// CACerts is the PEM that hosts must trust, as /cacerts serves it: with one newline at
// its end, or empty when the server's certificate is signed by a public CA.
func (s *Settings) CACerts() string {
	pem := strings.TrimRight(s.Get("cacerts").Value, "\r\n")
	if pem == "" {
		return ""
	}
	return pem + "\n"
}

// CAChecksum is the lower-case hex SHA-256 of CACerts, which hosts compare with the
// checksum of their download; empty when there is no CA to pin.
func (s *Settings) CAChecksum() string {
	pem := s.CACerts()
	if pem == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(pem))
	return hex.EncodeToString(sum[:])
}

// StrictTLS says that agents trust the CA of CACerts only and never the system's store.
func (s *Settings) StrictTLS() bool {
	return s.CACerts() != "" && s.Get("agent-tls-mode").Value == "strict"
}

// Minutes is a setting that holds a number of minutes; 0 means no limit.
func (s *Settings) Minutes(name string) time.Duration {
	n, err := strconv.Atoi(s.Get(name).Value)
	if err != nil { // checked when it was stored
		return 0
	}
	return time.Duration(n) * time.Minute
}

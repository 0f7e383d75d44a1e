// Package credentials finds whose credentials a registry is shown: those of
// registries.yaml, else those of a plugin, else those of a Docker login, else none.
package credentials

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/drover-project/drover/installers/image/registries"
)

// Credential is what a registry is shown; the zero value is nothing.
type Credential struct {
	authn.AuthConfig
	From string // where it was found
	note string // why a plugin had none
}

// Note adds to a refusal whose credentials were shown.
type Note struct {
	Text  string
	cause error
}

// Error is the cause, and whose credentials were shown.
func (n *Note) Error() string { return n.cause.Error() + "; " + n.Text }

// Unwrap is the registry's refusal.
func (n *Note) Unwrap() error { return n.cause }

// Finder knows where credentials may be. All fields but the first two are needed.
type Finder struct {
	Plugins Plugins
	// DockerConfig is a Docker config.json; optional.
	DockerConfig string
	Answers      *Answers // of plugins, kept between calls
	Logger       *slog.Logger
	Now          func() time.Time
}

// Find finds those for an image at the place where it is pulled from. The errors are those of a credential plugin that fails and of Docker's
// configuration.
func (s *Finder) Find(ctx context.Context, at name.Reference, configured *registries.Auth) (*Credential, error) {
	if configured != nil && *configured != (registries.Auth{}) {
		return &Credential{From: "registries.yaml", AuthConfig: authn.AuthConfig{
			Username: configured.Username, Password: configured.Password, IdentityToken: configured.IdentityToken,
		}}, nil
	}
	found, note, err := s.fromPlugins(ctx, at)
	if found != nil || err != nil {
		return found, err
	}
	login, err := dockerAuth(s.DockerConfig, at.Context().RegistryStr())
	if err != nil {
		return nil, err
	}
	if login != nil {
		return &Credential{From: s.DockerConfig, AuthConfig: *login, note: note}, nil
	}
	return &Credential{note: note}, nil
}

// Authenticator is the credential as the library takes it; anonymous for none.
func (c *Credential) Authenticator() authn.Authenticator {
	if c.AuthConfig == (authn.AuthConfig{}) {
		return authn.Anonymous
	}
	return authn.FromConfig(c.AuthConfig)
}

// Explain adds to a registry's refusal with whose credentials it was asked.
func (c *Credential) Explain(err error) error {
	var answer *transport.Error
	if !errors.As(err, &answer) || answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusForbidden {
		return err
	}
	text := "asked without credentials"
	if c.From != "" {
		text = "asked with the credentials of " + c.From
	}
	if c.note != "" {
		text += "; " + c.note
	}
	return &Note{Text: text, cause: err}
}

// Secrets are what must be in no error.
func (c *Credential) Secrets() []string {
	if c.AuthConfig == (authn.AuthConfig{}) {
		return nil
	}
	return []string{
		c.Password, c.IdentityToken, c.RegistryToken, c.Auth,
		base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password)),
	}
}

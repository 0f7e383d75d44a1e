// Whose credentials a registry is shown: those of registries.yaml, else those of a plugin,
// else those of a Docker login, else none.

package image

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// credential is what a registry is shown; the zero value is nothing.
type credential struct {
	authn.AuthConfig
	from string // where it was found
	note string // why a plugin had none
}

// credentialNote adds to a refusal whose credentials were shown.
type credentialNote struct {
	text  string
	cause error
}

func (n *credentialNote) Error() string { return n.cause.Error() + "; " + n.text }
func (n *credentialNote) Unwrap() error { return n.cause }

// credentials finds those for an image at the place where it is pulled from.
func (s *Stager) credentials(ctx context.Context, at name.Reference, configured *registryAuth) (*credential, error) {
	if configured != nil && *configured != (registryAuth{}) {
		return &credential{from: "registries.yaml", AuthConfig: authn.AuthConfig{
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
		return &credential{from: s.DockerConfig, AuthConfig: *login, note: note}, nil
	}
	return &credential{note: note}, nil
}

func (c *credential) authenticator() authn.Authenticator {
	if c.AuthConfig == (authn.AuthConfig{}) {
		return authn.Anonymous
	}
	return authn.FromConfig(c.AuthConfig)
}

// explain adds to a registry's refusal with whose credentials it was asked.
func (c *credential) explain(err error) error {
	var answer *transport.Error
	if !errors.As(err, &answer) || answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusForbidden {
		return err
	}
	text := "asked without credentials"
	if c.from != "" {
		text = "asked with the credentials of " + c.from
	}
	if c.note != "" {
		text += "; " + c.note
	}
	return &credentialNote{text: text, cause: err}
}

// secrets are what must be in no error.
func (c *credential) secrets() []string {
	if c.AuthConfig == (authn.AuthConfig{}) {
		return nil
	}
	return []string{
		c.Password, c.IdentityToken, c.RegistryToken, c.Auth,
		base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password)),
	}
}

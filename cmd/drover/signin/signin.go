// Package signin gets a token for a user who logs in: with a password that the server or a directory checks, or through a
// browser.
package signin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/drover-project/drover/client"
)

// How is what the command line says.
type How struct {
	Username, Provider string
	// Browser logs in through a browser on this machine, Paste through one on another.
	Browser, Paste bool
}

// Given says whether it says anything.
func (h How) Given() bool { return h.Username != "" || h.Provider != "" || h.Browser || h.Paste }

// Check says what of it does not go together. The error is for the person who typed the flags.
func (h How) Check() error {
	if (h.Browser || h.Paste) && h.Username != "" {
		return errors.New("--username is for passwords; with --browser the directory asks who you are")
	}
	return nil
}

// At is where a user logs in.
type At struct {
	// Client has no token.
	Client *client.Client
	// Out gets what is to be read by people.
	Out io.Writer
	// Secret reads a line that a terminal does not show, Line one that it shows; Line is nil where there is no terminal.
	Secret, Line func(prompt string) (string, error)
}

// provider is a way to log in, as /v1-public/authproviders lists it.
type provider struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// local is the way that is always there.
const local = "local"

// browser says whether it works through a browser.
func (p provider) browser() bool { return p.ID == "genericoidc" || p.ID == "github" }

func (p provider) path() string { return "/v3-public/" + p.Type + "s/" + p.ID }

// Token logs in. The errors name the way in that was tried, and hold what the server answered: client.ErrUnauthorized for a wrong password.
func (a At) Token(ctx context.Context, how How) (string, error) {
	var list struct {
		Data []provider `json:"data"`
	}
	err := a.Client.Get(ctx, "/v1-public/authproviders", &list)
	if errors.Is(err, client.ErrNotFound) { // a server that knows passwords alone
		list.Data, err = []provider{{ID: local, Type: "localProvider"}}, nil
	}
	if err != nil {
		return "", fmt.Errorf("ask %s how to log in: %w", a.Client.Server(), err)
	}
	p, err := choose(list.Data, how, a.Line)
	if err != nil {
		return "", fmt.Errorf("log in: %w", err)
	}
	body := map[string]string{"description": "drover login"}
	if p.browser() {
		err = a.throughBrowser(ctx, p, how.Paste, body)
	} else {
		err = a.password(how.Username, body)
	}
	if err != nil {
		return "", fmt.Errorf("log in by %s: %w", p.ID, err)
	}
	var token struct {
		Token string `json:"token"`
	}
	if err := a.Client.Send(ctx, "POST", p.path()+"?action=login", body, &token); err != nil {
		who := "by " + p.ID
		if body["username"] != "" {
			who = "as " + body["username"]
		}
		return "", fmt.Errorf("log in %s: %w", who, err)
	}
	return token.Token, nil
}

// password reads who logs in.
func (a At) password(username string, body map[string]string) error {
	if username == "" && a.Line != nil {
		line, err := a.Line("login name: ")
		if err != nil {
			return fmt.Errorf("read a login name: %w", err)
		}
		username = strings.TrimSpace(line)
	}
	if username == "" {
		return errors.New("no login name; give --username")
	}
	line, err := a.Secret("password of " + username + ": ")
	if body["username"], body["password"] = username, strings.TrimRight(line, "\r\n"); body["password"] == "" {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return errors.Join(errors.New("no password on standard input"), err)
	}
	return nil
}

// choose is the provider that is meant. Where several could be a terminal is asked, and without one it is the server itself.
func choose(all []provider, how How, ask func(string) (string, error)) (provider, error) {
	var names []string
	var possible []provider
	throughBrowser := how.Browser || how.Paste
	for _, p := range all {
		names = append(names, p.ID)
		if p.ID == how.Provider {
			if throughBrowser && !p.browser() {
				return p, fmt.Errorf("people of %s log in with a name and a password: leave out --browser", p.ID)
			}
			return p, nil
		}
		if p.browser() == throughBrowser {
			possible = append(possible, p)
		}
	}
	switch {
	case how.Provider != "":
		return provider{}, fmt.Errorf("the server has no provider %q; it has %s", how.Provider, strings.Join(names, ", "))
	case len(possible) == 0:
		return provider{}, fmt.Errorf("the server has no provider that works this way; it has %s", strings.Join(names, ", "))
	case len(possible) == 1:
		return possible[0], nil
	case ask == nil && throughBrowser:
		return provider{}, fmt.Errorf("several providers work this way; name one by --provider: %s", strings.Join(names, ", "))
	case ask == nil:
		return possible[0], nil // the server lists its own first
	}
	names = names[:0]
	for _, p := range possible {
		names = append(names, p.ID)
	}
	line, err := ask("log in by which of " + strings.Join(names, ", ") + " [" + names[0] + "]: ")
	answer := strings.TrimSpace(line)
	for i, p := range possible {
		if p.ID == answer || answer == "" && i == 0 && err == nil {
			return p, nil
		}
	}
	return provider{}, fmt.Errorf("%q is none of %s", answer, strings.Join(names, ", "))
}

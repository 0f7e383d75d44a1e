// Package execplugin is drover as a credential plug-in of kubectl, drover token: it gives a token of one cluster,
// got by the login of drover's own command line, which it keeps until shortly before its end and then renews. The
// form of what it prints is client.authentication.k8s.io/v1, as kubectl reads it of the command in a kubeconfig.
package execplugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
)

// apiVersion is that of what kubectl reads.
const apiVersion = "client.authentication.k8s.io/v1"

// lifeSetting says for how many minutes tokens of kubeconfigs live.
const lifeSetting = "kubeconfig-default-token-ttl-minutes"

// App is what the plug-in needs of the program.
type App struct {
	// Client is the login, and Find a cluster by its name or id.
	Client func() (*client.Client, error)
	Find   func(ctx context.Context, c *client.Client, name string) (apitypes.Cluster, error)
	// Dir is the directory of the tokens that are kept; only its owner may read it.
	Dir func() (string, error)
	// Usage is an error about the command line.
	Usage func(format string, args ...any) error
	Out   io.Writer
	Now   func() time.Time
	// Parent is the process that asks.
	Parent int
}

// OverError reports that the server does not take the login any more.
type OverError struct {
	server string
	cause  *client.Error
}

func (e *OverError) Error() string {
	return fmt.Sprintf("the login to %s is over: %s; type: drover login %s --username NAME", e.server, e.cause.Message, e.server)
}

// Unwrap is the server's answer.
func (e *OverError) Unwrap() error { return e.cause }

// over turns the refusal of a login into the sentence that says what to type.
func over(server string, err error) error {
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusUnauthorized {
		return &OverError{server: server, cause: refused}
	}
	return err
}

// print writes a token as kubectl reads it. kubectl is asked to come back when the token is to be renewed, which
// is before its end.
func (a *App) print(t kept) error {
	answer := map[string]any{"token": t.Token}
	if renew := t.renewal(); !renew.IsZero() {
		answer["expirationTimestamp"] = renew.UTC().Format(time.RFC3339)
	}
	if err := json.NewEncoder(a.Out).Encode(map[string]any{"apiVersion": apiVersion, "kind": "ExecCredential", "status": answer}); err != nil {
		return fmt.Errorf("print the token: %w", err)
	}
	return nil
}

// give prints a token of a cluster: the one that is kept, or a new one.
func (a *App) give(ctx context.Context, cluster string) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	dir, err := a.Dir()
	if err != nil {
		return err
	}
	place := placeOf(dir, c.Server(), cluster, c.TokenName())
	unlock, err := place.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	t, ok := place.read()
	if ok && t.good(a.Now()) {
		// A client keeps what it got. A client that asks again before the end was refused with it.
		if t.Asked == a.Parent {
			ok, err = stillThere(ctx, c, t.Name)
		}
		if err != nil {
			return over(c.Server(), err)
		}
	} else {
		ok = false
	}
	if !ok {
		if t, err = a.issue(ctx, c, cluster); err != nil {
			return over(c.Server(), err)
		}
	}
	t.Asked = a.Parent
	if err := place.write(t, a.Now()); err != nil {
		return err
	}
	return a.print(t)
}

// stillThere asks whether the server still has a token. A server that does not say is taken for one that has.
func stillThere(ctx context.Context, c *client.Client, name string) (bool, error) {
	var one struct {
		Expired bool  `json:"expired"`
		Enabled *bool `json:"enabled"`
	}
	err := c.Get(ctx, "/v3/tokens/"+url.PathEscape(name), &one)
	if errors.Is(err, client.ErrNotFound) {
		return false, nil
	}
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusUnauthorized {
		return false, err
	}
	return err != nil || !one.Expired && (one.Enabled == nil || *one.Enabled), nil
}

// issue has the server make a token that is good for one cluster.
func (a *App) issue(ctx context.Context, c *client.Client, cluster string) (kept, error) {
	one, err := a.Find(ctx, c, cluster)
	if err != nil {
		return kept{}, err
	}
	life, err := lifetime(ctx, c)
	if err != nil {
		return kept{}, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	body := map[string]any{"description": fmt.Sprintf("drover token for kubectl in cluster %s, on %.100s", one.Name, host), "clusterId": one.ID, "ttl": life.Milliseconds()}
	var made struct {
		Name    string `json:"name"`
		Token   string `json:"token"`
		Expires string `json:"expiresAt"` // empty for never
	}
	if err := c.Send(ctx, http.MethodPost, "/v3/tokens", body, &made); err != nil {
		return kept{}, fmt.Errorf("make a token of cluster %s: %w", one.Name, err)
	}
	if made.Token == "" {
		return kept{}, fmt.Errorf("make a token of cluster %s: the server's answer has none", one.Name)
	}
	t := kept{Server: c.Server(), Login: c.TokenName(), Name: made.Name, Token: made.Token, Made: a.Now()}
	if made.Expires != "" {
		if t.Expires, err = time.Parse(time.RFC3339, made.Expires); err != nil {
			return kept{}, fmt.Errorf("read the end of the new token of cluster %s: %w", one.Name, err)
		}
	}
	return t, nil
}

// lifetime is how long the server wants tokens of kubeconfigs to live; 0 leaves it to the server.
func lifetime(ctx context.Context, c *client.Client) (time.Duration, error) {
	var setting struct {
		Value string `json:"value"`
	}
	if err := c.Get(ctx, "/v3/settings/"+lifeSetting, &setting); err != nil {
		return 0, fmt.Errorf("read setting %s: %w", lifeSetting, err)
	}
	minutes, err := strconv.ParseInt(cmp.Or(setting.Value, "0"), 10, 32)
	if err != nil || minutes < 0 {
		return 0, fmt.Errorf("setting %s has the value %.40q, which is not a number of minutes", lifeSetting, setting.Value)
	}
	return time.Duration(minutes) * time.Minute, nil
}

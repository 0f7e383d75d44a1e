package cli

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/backup"
	"github.com/drover-project/drover/cmd/drover/contexts"
	"github.com/drover-project/drover/cmd/drover/service"
)

// Serve runs a server until the context ends.
type Serve = service.Serve

// serverCommand is drover server, and what saves a server and brings it back.
func (a *app) serverCommand() *cobra.Command {
	dataDir := func() string { return a.given.DataDir }
	askURL := func(ctx context.Context, dataDir, password string) (string, bool, error) {
		// Not by a login of the person who installs it, which may be to another server.
		found, err := contexts.Resolve(contexts.Given{DataDir: dataDir, DataDirAsked: true}, func(string) string { return "" })
		if err != nil {
			return "", false, err
		}
		c, err := client.New(found.Config())
		if err != nil {
			return "", false, err
		}
		var url struct {
			Value string `json:"value"`
		}
		if err := c.Get(ctx, "/v3/settings/server-url", &url); err != nil {
			return "", false, fmt.Errorf("ask the server for its address: %w", err)
		}
		login := map[string]string{"username": "admin", "password": password}
		is := password != "" && c.Send(ctx, http.MethodPost, "/v3-public/localProviders/local?action=login", login, &struct{}{}) == nil
		return firstOf(url.Value, c.Server()), is, nil
	}
	return (&service.App{
		Out: a.Out, Err: a.Err, Environ: a.environ, DataDir: dataDir, Show: a.show, Ask: askURL, Client: a.client,
		Serve: a.serve, Secret: func(name string) (string, error) { return readSecret(a.In, name) },
		Others: (&backup.App{
			Client: a.client, DataDir: dataDir, Tabular: a.tabular, Print: func(v any) error { return a.show(v, nil) }, Usage: usage, Out: a.Out, Err: a.Err,
		}).Commands(),
	}).Command()
}

// serverFindings is what drover server check finds on this host.
func serverFindings(a *app) func(context.Context) (any, error) {
	return func(ctx context.Context) (any, error) {
		return (&service.App{Environ: a.environ, DataDir: func() string { return a.given.DataDir }}).Findings(ctx)
	}
}

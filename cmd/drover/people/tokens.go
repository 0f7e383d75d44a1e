// Tokens of people.

package people

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
)

func (a *App) tokensCommand() *cobra.Command {
	var all bool
	ls := a.command(listing{
		what: "tokens", short: "List your tokens, without their keys", types: []string{"token"},
		cells: func(t resource) []string { return []string{t.ID, "ends " + cmp.Or(t.Expires, "never"), t.Description} },
		print: func(ctx context.Context, c *client.Client) error { return a.listTokens(ctx, c, all) },
	})
	ls.Flags().BoolVar(&all, "all", false, "those of everybody, for administrators; -w follows your own")
	rm := &cobra.Command{Use: "rm TOKEN", Short: "End a token, and what it has open", Args: a.Needs("TOKEN"), RunE: func(cmd *cobra.Command, args []string) error {
		c, err := a.Client()
		if err != nil {
			return err
		}
		if err := c.Send(cmd.Context(), "DELETE", "/v1-drover/tokens/"+url.PathEscape(args[0]), nil, nil); err != nil {
			return fmt.Errorf("end token %s: %w", args[0], err)
		}
		a.Say("token %s is ended", args[0])
		return nil
	}}
	return group("tokens", "Your API tokens", ls, a.createToken(), rm)
}

func (a *App) listTokens(ctx context.Context, c *client.Client, all bool) error {
	var page apitypes.List[apitypes.Token]
	if err := c.Get(ctx, fmt.Sprintf("/v1-drover/tokens?limit=5000&all=%t", all), &page); err != nil {
		return fmt.Errorf("list tokens: %w", err)
	}
	rows := [][]string{{"TOKEN", "USER", "KIND", "ENDS", "LAST USED", "DESCRIPTION"}}
	for _, t := range page.Data {
		kind, ends, used := "token", "never", "-"
		if t.Session {
			kind = "session"
		}
		if t.ClusterID != "" {
			kind += " for " + t.ClusterID
		}
		if !t.Expires.IsZero() && !t.Expires.After(time.Now()) {
			kind += ", ended"
		}
		if !t.Expires.IsZero() {
			ends = t.Expires.UTC().Format("2006-01-02T15:04:05Z")
		}
		if !t.LastUsed.IsZero() {
			used = t.LastUsed.UTC().Format("2006-01-02T15:04:05Z")
		}
		rows = append(rows, []string{t.Name, t.UserID, kind, ends, used, t.Description})
	}
	return a.Show(page.Data, rows)
}

func (a *App) createToken() *cobra.Command {
	var description, cluster string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use: "create", Short: "Make an API token of yours and print it, for the only time", Args: a.Needs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			if ttl < 0 {
				return a.Usage("--ttl %s is negative; 0 takes the server's default", ttl)
			}
			body := map[string]any{"description": description, "ttl": ttl.Milliseconds()}
			if cluster != "" {
				one, err := a.find(cmd.Context(), c, "clusters", "name", cluster)
				if err != nil {
					return err
				}
				body["clusterId"] = one.ID
			}
			var made struct {
				Name    string `json:"name"`
				Token   string `json:"token"`
				Expires string `json:"expiresAt"`
			}
			if err := c.Send(cmd.Context(), "POST", "/v3/tokens", body, &made); err != nil {
				return fmt.Errorf("create a token: %w", err)
			}
			if made.Expires != "" {
				a.Hint("it ends on " + made.Expires)
			}
			return a.Show(made, [][]string{{made.Token}})
		},
	}
	f := cmd.Flags()
	f.StringVar(&description, "description", "", "what it is for")
	f.DurationVar(&ttl, "ttl", 0, "how long it lives, as in 720h; 0 is the server's default")
	f.StringVar(&cluster, "cluster", "", "only for the Kubernetes API of this cluster")
	return cmd
}

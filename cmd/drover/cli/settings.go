package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/usageerr"
)

type setting struct {
	Name       string `json:"name"`
	Value      string `json:"value"`
	Default    string `json:"default"`
	Source     string `json:"source"`
	Customized bool   `json:"customized"`
}

func (a *app) settingsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "settings", Aliases: []string{"setting"}, Short: "The settings of the server"}
	list := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List settings", Args: needs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			var answer struct {
				Data []setting `json:"data"`
			}
			err = c.Get(cmd.Context(), "/v3/settings?limit=-1", &answer)
			if err != nil {
				return fmt.Errorf("list settings: %w", err)
			}
			return a.show(answer.Data, func(t *table) {
				wide := t.Wide(3)
				t.Row("NAME", "VALUE", "SOURCE", "DEFAULT")
				for _, s := range answer.Data {
					value := s.Value
					if len(value) > 60 && !wide {
						value = strings.ToValidUTF8(value[:57], "") + "..."
					}
					t.Row(s.Name, fmt.Sprintf("%q", value), s.Source, fmt.Sprintf("%q", s.Default))
				}
			})
		},
	}
	get := &cobra.Command{
		Use: "get NAME", Short: "Print the value of a setting", Args: needs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			var s setting
			if err := c.Get(cmd.Context(), "/v3/settings/"+url.PathEscape(args[0]), &s); err != nil {
				return noSetting(cmd.Context(), c, args[0], fmt.Errorf("get setting %s: %w", args[0], err))
			}
			return a.show(s, func(t *table) { t.Row(s.Value) })
		},
	}
	set := &cobra.Command{
		Use: "set NAME VALUE", Short: "Change a setting; an empty value returns to the default", Args: needs("NAME", "VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.Send(cmd.Context(), "PUT", "/v3/settings/"+url.PathEscape(args[0]), map[string]string{"value": args[1]}, nil); err != nil {
				return noSetting(cmd.Context(), c, args[0], fmt.Errorf("nothing is changed: %w", err))
			}
			return nil
		},
	}
	cmd.AddCommand(list, get, set)
	return cmd
}

// noSetting says of a name that no setting has which may have been meant.
func noSetting(ctx context.Context, c *client.Client, name string, err error) error {
	var answer struct {
		Data []setting `json:"data"`
	}
	if !errors.Is(err, client.ErrNotFound) || c.Get(ctx, "/v3/settings?limit=-1", &answer) != nil {
		return err
	}
	var known []string
	for _, s := range answer.Data {
		known = append(known, s.Name)
	}
	return absent("there is no setting %q; %s", name, usageerr.Hint(name, known, "drover settings ls"))
}

// ignoreEOF drops the error that an input without a last line break ends with.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

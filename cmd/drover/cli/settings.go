package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"
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
				t.row("NAME", "VALUE", "SOURCE")
				for _, s := range answer.Data {
					value := s.Value
					if len(value) > 60 {
						value = value[:57] + "..."
					}
					t.row(s.Name, fmt.Sprintf("%q", value), s.Source)
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
			var raw json.RawMessage
			if err := c.Get(cmd.Context(), "/v3/settings/"+url.PathEscape(args[0]), &raw); err != nil {
				return fmt.Errorf("get setting %s: %w", args[0], err)
			}
			var s setting
			if err := json.Unmarshal(raw, &s); err != nil {
				return fmt.Errorf("read setting %s: %w", args[0], err)
			}
			return a.show(raw, func(t *table) { t.row(s.Value) })
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
				return fmt.Errorf("set %s: %w", args[0], err)
			}
			return nil
		},
	}
	cmd.AddCommand(list, get, set)
	return cmd
}

// ignoreEOF drops the error that an input without a last line break ends with.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

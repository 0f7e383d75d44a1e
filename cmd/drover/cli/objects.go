package cli

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
)

// objectsPath is where the server lists Secrets and ConfigMaps, and below it where each of them is.
const objectsPath = "/v1-drover/objects"

func (a *app) objectsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "objects", Aliases: []string{"object"}, Short: "The Secrets and ConfigMaps that clusters refer to; `drover apply` makes them, and nothing shows what is in them"}
	list := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List Secrets and ConfigMaps", Args: needs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			all, err := client.List[apitypes.NamedObject](cmd.Context(), c, objectsPath)
			if err != nil {
				return fmt.Errorf("list objects: %w", err)
			}
			a.hint(len(all) == 0, "there is no Secret or ConfigMap; `drover apply -f` takes them in beside clusters")
			return a.show(all, func(t *table) {
				t.Row("KIND", "NAMESPACE", "NAME", "TYPE")
				for _, o := range all {
					t.Row(o.Kind, o.Namespace, o.Name, orDash(o.Type))
				}
			})
		},
	}
	remove := &cobra.Command{
		Use: "rm KIND/NAME", Short: "Remove a Secret or ConfigMap that no cluster refers to", Args: needs("KIND/NAME"),
		Example: `  drover objects rm secret/mirror
  drover objects rm configmap/other-namespace/settings`,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := objectPath(args[0])
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.Send(cmd.Context(), http.MethodDelete, path, nil, nil); err != nil {
				return fmt.Errorf("remove %s: %w", args[0], err)
			}
			return nil
		},
	}
	cmd.AddCommand(list, remove)
	return cmd
}

// objectPath is where the server has the object that a user writes as KIND/NAME or KIND/NAMESPACE/NAME.
func objectPath(text string) (string, error) {
	kind, name, _ := strings.Cut(text, "/")
	namespace, last, ok := strings.Cut(name, "/")
	if !ok {
		namespace, last = apitypes.DefaultNamespace, name
	}
	switch strings.ToLower(kind) {
	case "secret":
		kind = "Secret"
	case "configmap":
		kind = "ConfigMap"
	default:
		kind = ""
	}
	if kind == "" || namespace == "" || last == "" || strings.ContainsAny(namespace+last, "/?#%") {
		return "", usage("%.100q is not an object; write secret/NAME, configmap/NAME, or secret/NAMESPACE/NAME", text)
	}
	return objectsPath + "/" + kind + "/" + namespace + "/" + last, nil
}

package cli

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
)

// objectsPath is where the server lists Secrets and ConfigMaps, and below it where each of them is.
const objectsPath = "/v1-drover/objects"

func (a *app) objectsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "objects", Aliases: []string{"object"}, Short: "The Secrets and ConfigMaps that clusters refer to; `drover apply` makes them, and nothing shows what is in them"}
	all := list(a, listing[apitypes.NamedObject]{
		what: "objects", short: "List Secrets and ConfigMaps", path: objectsPath, heading: []string{"KIND", "NAMESPACE", "NAME", "TYPE"},
		none: "there is no Secret or ConfigMap; `drover apply -f` takes them in beside clusters",
		cells: func(o apitypes.NamedObject, _ time.Time) []string {
			return []string{o.Kind, o.Namespace, o.Name, orDash(o.Type)}
		},
	})
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
	cmd.AddCommand(all, remove)
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

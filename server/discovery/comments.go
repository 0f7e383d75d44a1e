// The comments of the documents' types, which people read with kubectl explain.

package discovery

import (
	_ "embed"
	"encoding/json"
)

//go:generate go test -run TestComments -update .

//go:embed comments.json
var comments []byte

// Comments are those of the types of cluster documents and of their fields, by "<package>.<type>.<field>" and
// "<package>.<type>". TestComments holds them to the source.
func Comments() map[string]string {
	var all map[string]string
	if err := json.Unmarshal(comments, &all); err != nil {
		return nil // cannot happen: a test reads it
	}
	return all
}

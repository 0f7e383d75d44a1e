// The page of all causes, made from the catalogue.

package verdict

import (
	"fmt"
	"io"
)

//go:generate go test -run TestDocument -update .

// Document writes the catalogue in Markdown. The heading of each row is its code, and so is its anchor.
func Document(w io.Writer) {
	fmt.Fprint(w, "# Troubleshooting\n\n"+
		"What machines and clusters wait for or fail by, by the code that `drover why NAME` shows. Generated from the\n"+
		"catalogue in `server/planner/verdict` by `go generate ./server/planner/verdict`.\n\n"+
		"`drover why` lists causes first cause first: failures, what is lost, what is being done, and then what waits for\n"+
		"others. Programs compare codes, which stay; the words may change.\n\n"+
		"| code | of | meaning |\n|---|---|---|\n")
	for _, row := range catalogue {
		fmt.Fprintf(w, "| [%s](#%s) | %s | %s |\n", row.Code, row.Code, row.subject(), row.Title)
	}
	for _, row := range catalogue {
		fmt.Fprintf(w, "\n## %s\n\n**%s.** %s\n\nWhat to do: %s\n", row.Code, row.Title, row.Explanation, row.Fix)
	}
}

func (r Row) subject() string {
	if r.Cluster {
		return "cluster"
	}
	return "machine"
}

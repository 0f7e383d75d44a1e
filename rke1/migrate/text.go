// The report for people.

package migrate

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
)

// Text writes the report: what the cluster needs, then each host, then a line that sums up. The error is that of the writer.
func (r *Report) Text(w io.Writer) error {
	to := cmp.Or(r.To, "no RKE2 yet")
	fmt.Fprintf(w, "The cluster %s, %s → %s\n", r.Cluster, r.From, to)
	if !r.Live {
		fmt.Fprintln(w, "(from its config alone; --kubeconfig looks at the running cluster too)")
	}
	if err := r.table(w, ""); err != nil {
		return err
	}
	for _, host := range r.Hosts() {
		fmt.Fprintf(w, "\nHost %s\n", host)
		if err := r.table(w, host); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.Summary())
	return err
}

func (r *Report) table(w io.Writer, host string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, i := range r.Items {
		if i.Host == host {
			fmt.Fprintf(t, "  %s\t%s\t%s", i.Level, i.Topic, i.Found)
			if i.Needs != "" {
				fmt.Fprintf(t, "\n\t\t→ %s", i.Needs)
			}
			fmt.Fprintln(t)
		}
	}
	return t.Flush()
}

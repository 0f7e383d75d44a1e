// The capacity that a cluster's nodes have together.

package management

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drover-project/drover/server/observed"
)

// sums are the quantities of all nodes of a cluster together. Memory is in Ki and cpu in whole ones or m, which clients read.
func sums(api observed.API) (capacity, allocatable map[string]string) {
	total := func(of func(observed.NodeDetails) map[string]string) map[string]string {
		all := map[string]resource.Quantity{}
		for _, d := range api.Details {
			for name, text := range of(d) {
				q, err := resource.ParseQuantity(text)
				if err != nil {
					continue // what a node reports is not the server's to mend
				}
				sum := all[name]
				sum.Add(q)
				all[name] = sum
			}
		}
		texts := map[string]string{}
		for name, q := range all {
			texts[name] = q.String()
			if name == "memory" {
				kibi := resource.NewQuantity(q.Value()/1024, resource.DecimalSI)
				texts[name] = kibi.AsDec().String() + "Ki"
			}
		}
		return texts
	}
	return total(func(d observed.NodeDetails) map[string]string { return d.Capacity }), total(func(d observed.NodeDetails) map[string]string { return d.Allocatable })
}

package operations

import (
	"maps"
	"slices"
	"strings"
)

// Kind is what an operation does; the word is on disk and in answers.
type Kind string

// The kinds of operations.
const (
	// KindUpgrade changes the Kubernetes version of a cluster whose machines get plans, KindChange something else that
	// restarts them; KindProvision brings an RKE1 cluster to what its document says.
	KindUpgrade   Kind = "upgrade"
	KindChange    Kind = "change"
	KindProvision Kind = "provision"
	// KindPlan gives machines of a fleet a plan.
	KindPlan Kind = "plan"
	// KindRemoval removes a machine, KindUninstall a whole cluster.
	KindRemoval   Kind = "removal"
	KindUninstall Kind = "uninstall"

	KindSnapshot           Kind = "snapshot"
	KindRemoveSnapshot     Kind = "remove-snapshot"
	KindRestore            Kind = "restore"
	KindRotateCertificates Kind = "rotate-certificates"
	KindRotateCA           Kind = "rotate-ca"
	KindRotateKeys         Kind = "rotate-encryption-keys"
	KindRotateToken        Kind = "rotate-server-token"
	// KindRehearse tries the restore of a snapshot on a machine, beside its cluster.
	KindRehearse Kind = "rehearse"
)

// use says what operations of a kind are.
type use struct {
	// replaceable says that a newer request may take their place while they run.
	replaceable bool
	// stepped says that they are asked for on clusters whose machines get plans, and done step by step.
	stepped bool
	// rke1 says that they are asked for on RKE1 clusters.
	rke1 bool
}

var kinds = map[Kind]use{
	KindUpgrade:            {replaceable: true},
	KindChange:             {replaceable: true},
	KindProvision:          {replaceable: true},
	KindPlan:               {replaceable: true},
	KindRemoval:            {},
	KindUninstall:          {},
	KindRehearse:           {},
	KindSnapshot:           {stepped: true, rke1: true},
	KindRemoveSnapshot:     {rke1: true},
	KindRestore:            {stepped: true, rke1: true},
	KindRotateCertificates: {stepped: true, rke1: true},
	KindRotateCA:           {stepped: true},
	KindRotateKeys:         {stepped: true, rke1: true},
	KindRotateToken:        {stepped: true},
}

// Kinds are all of them, sorted.
func Kinds() []Kind { return slices.Sorted(maps.Keys(kinds)) }

// Stepped says that operations of the kind are asked for on clusters whose machines get plans, and done step by step.
func (k Kind) Stepped() bool { return kinds[k].stepped }

// RKE1 says that operations of the kind are asked for on RKE1 clusters.
func (k Kind) RKE1() bool { return kinds[k].rke1 }

// Names are the kinds that are so, for a sentence.
func Names(are func(Kind) bool) string {
	var names []string
	for _, k := range Kinds() {
		if are(k) {
			names = append(names, string(k))
		}
	}
	return strings.Join(names, ", ")
}

// Replaceable says that a newer request may take the place of the operation.
func (o Operation) Replaceable() bool { return kinds[o.Kind].replaceable && o.State != Queued }

package operations

import (
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/apitypes"
)

// Kind is what an operation does; the word is on disk and in answers.
type Kind = apitypes.OperationKind

// The kinds of operations.
const (
	KindUpgrade            = apitypes.KindUpgrade
	KindChange             = apitypes.KindChange
	KindProvision          = apitypes.KindProvision
	KindPlan               = apitypes.KindPlan
	KindRemoval            = apitypes.KindRemoval
	KindUninstall          = apitypes.KindUninstall
	KindSnapshot           = apitypes.KindSnapshot
	KindRemoveSnapshot     = apitypes.KindRemoveSnapshot
	KindRestore            = apitypes.KindRestore
	KindRotateCertificates = apitypes.KindRotateCertificates
	KindRotateCA           = apitypes.KindRotateCA
	KindRotateKeys         = apitypes.KindRotateKeys
	KindRotateToken        = apitypes.KindRotateToken
	KindRehearse           = apitypes.KindRehearse
	KindUpdateAgents       = apitypes.KindUpdateAgents
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
	KindUpdateAgents:       {stepped: true},
}

// Kinds are all of them, sorted.
func Kinds() []Kind { return slices.Sorted(maps.Keys(kinds)) }

// Stepped says that operations of a kind are asked for on clusters whose machines get plans, and done step by step.
func Stepped(k Kind) bool { return kinds[k].stepped }

// RKE1 says that operations of a kind are asked for on RKE1 clusters.
func RKE1(k Kind) bool { return kinds[k].rke1 }

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

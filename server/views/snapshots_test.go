package views

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/rke/desired"
)

// TestNewCAsOfRKE1 can be asked for by the same word as those of others.
func TestNewCAsOfRKE1(t *testing.T) {
	for kind, request := range map[operations.Kind]desired.Request{
		operations.KindRotateCA:           {Kind: operations.KindRotateCertificates, CA: true},
		operations.KindRotateCertificates: {Kind: operations.KindRotateCertificates},
	} {
		if diff := cmp.Diff(request, RequestOf(apitypes.Asked{Kind: kind})); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
	}
}

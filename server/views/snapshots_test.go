package views

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/rke/want"
)

// TestNewCAsOfRKE1 can be asked for by the same word as those of others.
func TestNewCAsOfRKE1(t *testing.T) {
	for kind, wish := range map[operations.Kind]want.Wish{
		operations.KindRotateCA:           {Kind: operations.KindRotateCertificates, CA: true},
		operations.KindRotateCertificates: {Kind: operations.KindRotateCertificates},
	} {
		if diff := cmp.Diff(wish, Asked{Kind: kind}.Wish()); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
	}
}

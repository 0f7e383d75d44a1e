package desired

import (
	"testing"
	"time"

	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke"
)

// A state is read in both forms, and when its certificates end is beside it.
func TestRecordSaysWhenCertificatesEnd(t *testing.T) {
	s := world(t, plain)
	first := made(t, s)
	r, err := rke.Record(records.RKEState{}, first)
	if err != nil {
		t.Fatal(err)
	}
	in := time.Until(r.Ends[pki.CA])
	if len(r.Ends) != len(first.Desired.Certificates) || in < 9*365*24*time.Hour || in > 11*365*24*time.Hour {
		t.Errorf("ends: %v", r.Ends)
	}
	// That of a snapshot may have another CA.
	other := made(t, s)
	if _, err := rke.Record(r, other); err == nil {
		t.Error("a state with another CA took the place")
	}
	next, err := rke.Replaced(r, other)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := rke.State(&next); err != nil || back.Desired.Certificates[pki.CA].KeyPEM != other.Desired.Certificates[pki.CA].KeyPEM {
		t.Errorf("%v", err)
	}
}

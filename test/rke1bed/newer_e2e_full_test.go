//go:build e2e && e2e_full

package rke1bed_test

import (
	"testing"

	"github.com/drover-project/drover/test/rke1images"
)

// TestRKE1BedNewer is TestRKE1Bed for a minor version without dockershim. Its pods are not containers of Docker.
func TestRKE1BedNewer(t *testing.T) { testBed(t, rke1images.Newer) }

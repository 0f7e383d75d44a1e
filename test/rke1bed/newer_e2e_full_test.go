//go:build e2e && e2e_full

package rke1bed_test

import (
	"testing"

	"github.com/drover-project/drover/test/rke1images"
)

// TestRKE1BedNext is TestRKE1Bed for the first minor version without dockershim inside, whose pods stay containers of Docker.
func TestRKE1BedNext(t *testing.T) { testBed(t, rke1images.Next) }

// TestRKE1BedNewer is TestRKE1Bed for a minor version whose pods are not containers of Docker.
func TestRKE1BedNewer(t *testing.T) { testBed(t, rke1images.Newer) }

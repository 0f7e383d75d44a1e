//go:build e2e

package main

import (
	"testing"
	"time"
)

// TestNoAnonymousClientStopsTheServer takes about three minutes.
func TestNoAnonymousClientStopsTheServer(t *testing.T) { all(t, strangers(8*time.Second)) }

// TestNoHostOrClusterStopsTheServer takes about three minutes.
func TestNoHostOrClusterStopsTheServer(t *testing.T) { all(t, liars()) }

func all(t *testing.T, attacks []attack) {
	report, err := run(t.Context(), options{dir: t.TempDir(), memory: 512 << 20}, attacks)
	t.Log("\n" + report.String())
	if err != nil {
		t.Error(err)
	}
}

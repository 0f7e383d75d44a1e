//go:build e2e

package main

import (
	"testing"
	"time"
)

// TestNoAnonymousClientStopsTheServer takes about three minutes.
func TestNoAnonymousClientStopsTheServer(t *testing.T) {
	report, err := run(t.Context(), options{dir: t.TempDir(), memory: 512 << 20, each: 8 * time.Second})
	t.Log("\n" + report.String())
	if err != nil {
		t.Error(err)
	}
}

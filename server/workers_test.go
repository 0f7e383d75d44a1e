package server

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/test/bed/sharedetcd"
)

// TestWorkersOfAllServers: each server says what the workers of all do. Those of the leader run there alone, and a successor runs them.
func TestWorkersOfAllServers(t *testing.T) {
	endpoint, keys := sharedetcd.Start(t), filepath.Join(t.TempDir(), "keys")
	a := startWhole(t, endpoint, keys)
	admin := a.administrator()
	b := startWhole(t, endpoint, keys)
	listed := func(s *whole) apitypes.Workers {
		t.Helper()
		status, text := s.ask(admin, http.MethodGet, "/v1-drover/workers", "")
		var all apitypes.Workers
		if err := json.Unmarshal([]byte(text), &all); status != http.StatusOK || err != nil {
			t.Fatal(status, text, err)
		}
		return all
	}
	running := func(all apitypes.Workers, server string) (names []string) {
		for _, w := range all.Data {
			if w.Server == server && w.Running {
				names = append(names, w.Name)
			}
		}
		slices.Sort(names)
		return names
	}
	everywhere := []string{"machine-tokens", "token-uses", "version-data"}
	everything := slices.Sorted(slices.Values(append([]string{
		"agents", "backups", "certificates", "cluster-agents", "cluster-tokens", "clusters", "directories", "events", "nodes", "old-tokens", "rehearsals", "requests", "rights", "rke1", "snapshots",
	}, everywhere...)))
	for _, s := range []*whole{a, b} {
		s.until("all work runs on the leader, and on the other what runs everywhere", func() bool {
			all := listed(s)
			return len(all.Data) == 2*len(everything) && slices.Equal(running(all, a.url), everything) && slices.Equal(running(all, b.url), everywhere) && len(all.Silent) == 0
		})
	}
	a.apply(admin, harbour)
	cluster := func() apitypes.Worker {
		all := listed(b).Data
		return all[slices.IndexFunc(all, func(w apitypes.Worker) bool { return w.Name == "clusters" && w.Server == a.url })]
	}
	a.until("the cluster was decided on", func() bool { w := cluster(); return w.Keys == 1 && w.Succeeded > 0 && !w.LastSuccess.IsZero() })
	rights := func() apitypes.Worker {
		all := listed(b).Data
		return all[slices.IndexFunc(all, func(w apitypes.Worker) bool { return w.Name == "rights" && w.Server == a.url })]
	}
	a.until("the rights wait for the cluster", func() bool { return rights().Waiting == 1 })
	if w := rights().Waits[0]; w.Object != "cluster fleet-default/harbour" || w.Cause == "" || w.Since.IsZero() {
		t.Errorf("the rights wait as %+v", w)
	}
	a.stop()
	b.until("the successor runs them", func() bool { return slices.Equal(running(listed(b), b.url), everything) })
	if status, text := b.ask("", http.MethodGet, "/v1-drover/workers", ""); status != http.StatusUnauthorized || strings.Contains(text, "rights") {
		t.Errorf("a stranger gets %d %s", status, text)
	}
}

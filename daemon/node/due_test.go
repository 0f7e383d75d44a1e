package node

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/drover-project/drover/plans/apply/hostfs"
	"github.com/drover-project/drover/rke1/nodeconfig"
)

// TestARestartIsStillDueAfterACrash: an agent that died between writing new certificates and
// restarting what uses them leaves the restart to the next one, which finds the files as
// they are wanted.
func TestARestartIsStillDueAfterACrash(t *testing.T) {
	m := newManagement(t)
	m.answerWith(planned)
	h := newHost(t, m)
	stop := h.live(t)
	waitUntil(t, "the kubelet runs", func() bool { return h.docker.Containers()["kubelet"].Running })
	waitUntil(t, "what was applied is written down", func() bool { return h.exists("state/node-config-applied.json") })
	stop()
	m.stop()

	var wanted nodeconfig.NodeConfig
	w := httptest.NewRecorder()
	planned(w)
	if err := json.NewDecoder(w.Body).Decode(&wanted); err != nil || w.Code != http.StatusOK {
		t.Fatal(err)
	}
	wanted.Certs = `{"kube-ca":{"certificatePEM":"another-certificate","path":"/etc/kubernetes/ssl/kube-ca.pem"}}`
	// What the agent did before it died.
	b, err := json.Marshal(wanted)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.dir, "state/node-config.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if renewed, err := nodeconfig.WriteFiles(hostfs.FS{Root: h.o.Root}, &wanted); !renewed || err != nil {
		t.Fatal(renewed, err)
	}

	before := h.docker.Containers()["kubelet"].Starts
	stop = h.live(t)
	waitUntil(t, "the kubelet is restarted", func() bool { return h.docker.Containers()["kubelet"].Starts > before })
	h.cause(t, onContainers, "")
	stop()
	before = h.docker.Containers()["kubelet"].Starts
	h.live(t)
	h.cause(t, onContainers, "")
	if n := h.docker.Containers()["kubelet"].Starts; n != before {
		t.Error("it was restarted once more")
	}
}

// TestHoldingStillRestartsNothing: a config without certificates, which has the agent leave the host alone for a while, is no
// change of certificates, and neither is the end of that.
func TestHoldingStillRestartsNothing(t *testing.T) {
	m := newManagement(t)
	h := newHost(t, m)
	version := func(n int, still bool) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			r := httptest.NewRecorder()
			planned(r)
			var c nodeconfig.NodeConfig
			if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
				t.Error(err)
			}
			if still {
				c.Certs, c.Processes = "", nil
			}
			c.NodeVersion = n
			if err := json.NewEncoder(w).Encode(c); err != nil {
				t.Error(err)
			}
		}
	}
	var starts int
	for _, turn := range []struct {
		version int
		still   bool
	}{{4, false}, {5, true}, {6, false}} {
		m.answerWith(version(turn.version, turn.still))
		stop := h.live(t)
		waitUntil(t, "its version is acknowledged", func() bool { return slices.Contains(m.versions(), turn.version) })
		stop()
		if n := h.docker.Containers()["kubelet"].Starts; turn.version > 4 && n != starts {
			t.Errorf("the kubelet was restarted for version %d", turn.version)
		} else {
			starts = n
		}
	}
}

// When the certificates of the distribution on a host end. The server warns of that, and nothing else shows those that never
// leave the host: the pairs that the controller manager and the scheduler sign themselves are not even renewed by a restart.

package hostservice

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// maxCertificates is how many files are looked at on a host.
const maxCertificates = 200

// certificateDirs are where k3s and RKE2 keep them, below their data directory. Source: k3s-io/k3s
// pkg/daemons/control/deps/deps.go, and kube-controller-manager and kube-scheduler for what those sign themselves.
var certificateDirs = []string{"server/tls", "server/tls/etcd", "server/tls/kube-controller-manager", "server/tls/kube-scheduler", "agent"}

// Certificate is when one ends; the certificate itself is not reported.
type Certificate struct {
	// Name is its file below the data directory.
	Name string    `json:"name"`
	End  time.Time `json:"end"`
	// CA says that it signs others, and is not renewed with them.
	CA bool `json:"ca,omitempty"`
}

// certificates is GET /v1/certificates?dir=/var/lib/rancher/k3s: the certificates below a data directory, by their names.
// A file that cannot be read as one is left out.
func (s *Service) certificates(w http.ResponseWriter, r *http.Request) {
	dir := r.URL.Query().Get("dir")
	if !path.IsAbs(dir) || path.Clean(dir) != dir || dir == "/" {
		http.Error(w, "dir has to be the data directory of the distribution", http.StatusBadRequest)
		return
	}
	found := []Certificate{}
	for _, below := range certificateDirs {
		entries, err := os.ReadDir(filepath.Join(s.o.Root, dir, below))
		if err != nil {
			continue // a worker has no server's
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".crt") && len(found) < maxCertificates {
				if c, ok := s.certificate(dir, path.Join(below, e.Name())); ok {
					found = append(found, c)
				}
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"certificates": found}) // the server may have gone, and asks again
}

// certificate is the first one in a file, which is its owner's; others are of those who signed it.
func (s *Service) certificate(dir, name string) (Certificate, bool) {
	text, err := s.read(path.Join(dir, name))
	if err != nil {
		return Certificate{}, false
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return Certificate{}, false
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return Certificate{}, false
	}
	return Certificate{Name: name, End: parsed.NotAfter.UTC(), CA: parsed.IsCA}, true
}

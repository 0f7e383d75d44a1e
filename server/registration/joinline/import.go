// The lines by which people import a cluster.

package joinline

import (
	"encoding/base64"
	"time"
)

// ImportPath is where the manifests of clusters to import are, below the server's URL.
const ImportPath = "/v3/import/"

// Import are the lines for a cluster that is imported; the zero value is for any other.
type Import struct {
	// ManifestURL has the registration token in it, as have the lines.
	ManifestURL string
	// Command trusts what kubectl trusts, Insecure anybody, and Pinned the server's own CA alone.
	Command, Insecure, Pinned string
	// CleanupURL has the names of what is to be deleted by hand where the cluster's agent does not answer.
	CleanupURL string
	// Spent is when the first agent was let in, with whatever token of the cluster: from then on a token lets in none but those of the
	// same Kubernetes. Zero before.
	Spent time.Time
}

// ImportOf are the lines for the cluster of an ID. CA is the PEM of the server's own authority; empty where it is a public one.
func (h Host) ImportOf(clusterID, ca string) Import {
	url := h.Server + ImportPath + h.Token + "_" + clusterID + ".yaml"
	i := Import{
		ManifestURL: url, Command: "kubectl apply -f " + url, Insecure: "curl --insecure -sfL " + url + " | kubectl apply -f -",
		CleanupURL: h.Server + ImportPath + "cleanup_" + clusterID + ".yaml",
	}
	if i.Pinned = i.Command; ca != "" {
		i.Pinned = "echo " + base64.StdEncoding.EncodeToString([]byte(ca)) + " | base64 -d | curl -sfL --cacert /dev/stdin " + url + " | kubectl apply -f -"
	}
	return i
}

// What kubectl fetches: the manifest of a cluster to import, and what is to be deleted by hand in one whose agent does not
// answer. Kubectl has no login here; the registration token in the path is all that gives access.

package clusteragents

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/drover-project/drover/plans/forms"
	"github.com/drover-project/drover/server/registration"
)

// cleanup is the file of a clean-up.
var cleanup = regexp.MustCompile(`^cleanup_c-[a-z0-9-]{1,20}\.yaml$`)

// noManifest is the one answer to a token that is wrong and to one of another cluster.
const noManifest = "there is no manifest at this address: the registration token is not that of this cluster, or has ended; take the line again from drover clusters import NAME"

// Routes adds where manifests are fetched.
func (a *Agents) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+registration.ImportPath+"{file}", a.manifest)
	mux.HandleFunc(registration.ImportPath, func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusNotFound, noManifest) })
}

func (a *Agents) manifest(w http.ResponseWriter, r *http.Request) {
	file := r.PathValue("file")
	if cleanup.MatchString(file) {
		text, err := Cleanup()
		a.give(w, text, err)
		return
	}
	base, isYAML := strings.CutSuffix(file, ".yaml")
	token, id, ok := strings.Cut(base, "_")
	cluster, err := a.Tokens.ClusterByToken(token)
	if !isYAML || !ok || err != nil || cluster.ID != id {
		if wait := a.Tokens.WrongToken(r.RemoteAddr); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(wait.Seconds())))
			plain(w, http.StatusTooManyRequests, "too many wrong registration tokens from this address")
			return
		}
		plain(w, http.StatusNotFound, noManifest)
		return
	}
	if !cluster.Spec.Imported() {
		plain(w, http.StatusConflict, "cluster "+cluster.Name+" is provisioned by this server; there is nothing to import")
		return
	}
	server := a.Settings.ServerURL()
	if server == "" {
		if !forms.Host(r.Host) {
			plain(w, http.StatusBadRequest, "the Host header is not a valid host name, and setting server-url is empty")
			return
		}
		server = "https://" + r.Host
	}
	text, err := manifest(a.Manifest(cluster, server, token, ""))
	a.give(w, text, err)
}

func (a *Agents) give(w http.ResponseWriter, text []byte, err error) {
	if err != nil {
		a.Logger.Error("manifest of a cluster agent not written", "error", err)
		plain(w, http.StatusInternalServerError, "the server could not write this manifest; its log says why")
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(text) // #nosec G705 -- a manifest in YAML, which browsers take as text
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, text, status)
}

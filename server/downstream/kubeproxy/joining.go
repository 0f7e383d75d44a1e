// Namespaces that people make with kubectl in a project of theirs, by the annotation that names it.

package kubeproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"

	apinet "k8s.io/apimachinery/pkg/util/net"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/state"
)

const (
	namespacesPath    = "/api/v1/namespaces"
	projectAnnotation = "field.cattle.io/projectId"
	// maxNamespace bounds the JSON of a namespace that is looked into, in bytes; larger ones pass, and are in no project.
	maxNamespace = 256 << 10
)

// namespace is the part of one that counts.
type namespace struct {
	Metadata struct {
		Name        string            `json:"name"`
		UID         string            `json:"uid"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// joining is a namespace that a request makes in a project.
type joining struct {
	membership *state.Membership
	known      state.Memberships
	caller     auth.Identity
	cluster    string
	project    string
}

// joins is what a request makes in a project of the cluster, nil for most and for one that acts as another user. Its body stays whole.
func (p *Proxy) joins(r *http.Request, path, cluster string, caller auth.Identity) *joining {
	if p.Membership == nil || r.Method != http.MethodPost || path != namespacesPath || r.URL.Query().Has("dryRun") || !isJSON(r.Header) || len(impersonation(r.Header)) > 0 {
		return nil
	}
	var n namespace
	if r.Body = peek(r.Body, &n); n.Metadata.Annotations[projectAnnotation] == "" {
		return nil
	}
	caller.ClusterID = "" // a token of this cluster gives what its user may do in it
	j := &joining{membership: p.Membership, known: p.Membership.In(cluster), caller: caller, cluster: cluster, project: n.Metadata.Annotations[projectAnnotation]}
	if !j.known.All[j.project] {
		return nil // of another server, or none
	}
	return j
}

// may says whether the caller may have a namespace of that name in the project, as the server's own API decides it.
func (j *joining) may(name string) bool {
	about := auth.Object{Kind: auth.Namespace, Cluster: j.cluster, Project: j.project}
	if !auth.May(j.caller, auth.Create, about) {
		return false
	}
	from := j.known.BuiltIn(name)
	about.Key, about.Project = name, from
	return from == "" || from == j.project || auth.May(j.caller, auth.Update, about)
}

// made records what the cluster says that it has made. Of a namespace that is in no project it returns a warning for the caller.
func (j *joining) made(ctx context.Context, answer *http.Response) (warning string) {
	if j == nil || answer.StatusCode != http.StatusCreated || !isJSON(answer.Header) {
		return ""
	}
	var n namespace
	answer.Body = peek(answer.Body, &n)
	name, why := n.Metadata.Name, "you may not create namespaces there"
	if j.may(name) {
		err := j.membership.Move(ctx, j.cluster, n.Metadata.UID, name, j.known.BuiltIn(name), j.project)
		if err == nil {
			return ""
		}
		why = err.Error()
	}
	return fmt.Sprintf("namespace %.80q is not in project %s, and its annotation will be taken away: %s", name, j.project, why)
}

// warn adds a warning to the header of an answer; "" adds none.
func warn(h http.Header, text string) {
	if text == "" {
		return
	}
	if warning, err := apinet.NewWarningHeader(299, "drover", text); err == nil {
		h.Add("Warning", warning)
	}
}

func isJSON(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && kind == "application/json" && h.Get("Content-Encoding") == ""
}

// peek reads a namespace from a body, and returns the body as it was. What cannot be read is no namespace.
func peek(body io.ReadCloser, n *namespace) io.ReadCloser {
	text, err := io.ReadAll(io.LimitReader(body, maxNamespace+1))
	if err != nil || len(text) > maxNamespace || json.Unmarshal(text, n) != nil {
		*n = namespace{}
	}
	var rest io.Reader = body
	if err != nil {
		rest = failing{err}
	}
	return whole{io.MultiReader(bytes.NewReader(text), rest), body}
}

// whole is a body of which a part was read.
type whole struct {
	io.Reader
	io.Closer
}

// failing is the rest of a body that could not be read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

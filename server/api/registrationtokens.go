// The type clusterRegistrationToken: the secret by which hosts join, and the commands
// made of it. Commands are computed when they are read, so that a changed server-url
// or CA changes them all at once.

package api

import (
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/random"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/store"
)

func (a *API) registrationTokenKind() *kind {
	text := norman.Field{Type: "string"}
	return &kind{
		schema: norman.Schema{
			ID: "clusterRegistrationToken", Plural: "clusterRegistrationTokens",
			Fields: norman.Fields(map[string]norman.Field{
				"name": {Type: "dnsLabel", Create: true}, "clusterId": {Type: "reference[cluster]", Create: true, Required: true},
				"namespaceId": text, "token": text, "manifestUrl": text, "expiresAt": text,
				"command": text, "insecureCommand": text, "nodeCommand": text, "insecureNodeCommand": text,
				"windowsNodeCommand": text, "insecureWindowsNodeCommand": text,
			}),
		},
		list: func(c *call) []norman.Object {
			if !c.who.Admin {
				return nil
			}
			docs := a.State.RegistrationTokens.List()
			objects := make([]norman.Object, len(docs))
			for i, d := range docs {
				objects[i] = a.registrationTokenObject(d.Value)
			}
			return objects
		},
		get: func(c *call, id string) (norman.Object, bool) {
			d, ok := a.State.RegistrationTokens.Get(strings.Replace(id, ":", "/", 1))
			if !ok || !c.who.Admin || strings.Contains(id, "/") {
				return norman.Object{}, false
			}
			return a.registrationTokenObject(d.Value), true
		},
	}
}

func (a *API) registrationTokenObject(t records.RegistrationToken) norman.Object {
	state := summary{"active", "no", ""}
	join, err := a.Registration.JoinCommandFor(t)
	if errors.Is(err, registration.ErrNoServerURL) {
		state = summary{"pending", "error", err.Error()}
	} else if err != nil {
		state = summary{"error", "error", err.Error()}
	}
	expires := ""
	if !t.Expires.IsZero() {
		expires = t.Expires.UTC().Format("2006-01-02T15:04:05Z")
		if !a.Now().Before(t.Expires) {
			state = summary{"error", "error", "the token expired at " + expires + ": delete it to get a fresh one"}
		}
	}
	o := norman.Object{ID: t.ClusterID + ":" + t.Name, Fixed: true, Fields: map[string]any{
		"name": t.Name, "clusterId": t.ClusterID, "namespaceId": nil, "token": t.Token, "manifestUrl": join.ManifestURL, "expiresAt": expires,
		"command": join.Command, "insecureCommand": join.InsecureCommand,
		"nodeCommand": join.NodeCommand, "insecureNodeCommand": join.InsecureNodeCommand,
		"windowsNodeCommand": join.WindowsNodeCommand, "insecureWindowsNodeCommand": join.InsecureWindowsNodeCommand,
		"created": t.Created, "creatorId": nil, "labels": map[string]string{}, "annotations": map[string]string{},
	}}
	state.into(o.Fields)
	return o
}

// dnsLabel is what a name may look like.
var dnsLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// createRegistrationToken answers with the commands, which the CLI prints from there.
func (a *API) createRegistrationToken(c *call) (answer, error) {
	in, err := c.input(c.kind.schema)
	if err != nil {
		return answer{}, err
	}
	clusterID, err := in.Required("clusterId")
	if err != nil {
		return answer{}, err
	}
	name, err := in.String("name")
	if err != nil {
		return answer{}, err
	}
	if name == "" {
		name = "crt-" + random.ID(5)
	}
	if !dnsLabel.MatchString(name) {
		return answer{}, norman.Invalid(norman.InvalidCharacters, "name",
			"%.80q is no name: lower-case letters, digits and dashes, at most 63, no dash at either end", name)
	}
	cluster, ok := a.visibleCluster(c, clusterID)
	if !ok {
		return answer{}, norman.Invalid(norman.InvalidReference, "clusterId", "there is no cluster %q", clusterID)
	}
	t := registration.NewToken(cluster.Value, name, a.Now())
	if _, err := a.State.RegistrationTokens.Create(c.ctx(), t.Key(), t); err != nil {
		if _, exists := errors.AsType[*store.ExistsError](err); exists {
			return answer{}, &norman.Error{
				Status: http.StatusConflict, Code: norman.AlreadyExists, Field: "name", Message: "cluster " + clusterID + " has a token " + name + " already",
			}
		}
		return answer{}, err
	}
	object := a.registrationTokenObject(t)
	return answer{status: http.StatusCreated, object: &object}, nil
}

// removeRegistrationToken ends a token. The default token is made anew at once: that is
// how it is rotated, and a cluster is never without one.
func (a *API) removeRegistrationToken(c *call) (answer, error) {
	d, ok := a.State.RegistrationTokens.Get(strings.Replace(c.id, ":", "/", 1))
	if !ok {
		return answer{}, norman.Missing("clusterRegistrationToken", c.id)
	}
	cluster, exists := a.clusterByID(d.Value.ClusterID)
	if d.Value.Name != registration.DefaultToken || !exists {
		return answer{status: http.StatusNoContent}, a.State.RegistrationTokens.Delete(c.ctx(), d.Key, 0)
	}
	d.Value = registration.NewToken(cluster.Value, d.Value.Name, a.Now())
	if _, err := a.State.RegistrationTokens.Update(c.ctx(), d); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusNoContent}, nil
}

// The type clusterRegistrationToken: the secret by which hosts join, and the commands
// made of it. Commands are computed when they are read, so that a changed server-url
// or CA changes them all at once.

package management

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// RegistrationTokens serves the type clusterRegistrationToken.
type RegistrationTokens struct {
	State        *state.State
	Registration *registration.Registration
	Now          func() time.Time
}

func (a RegistrationTokens) kind() *Kind {
	text := norman.Field{Type: "string"}
	return &Kind{
		Schema: norman.Schema{
			ID: "clusterRegistrationToken", Plural: "clusterRegistrationTokens",
			Fields: norman.Fields(map[string]norman.Field{
				"labels": {Type: "map[string]"}, "annotations": {Type: "map[string]"}, // which are not kept
				"name": {Type: "dnsLabel", Create: true}, "clusterId": {Type: "reference[cluster]", Create: true, Required: true},
				"namespaceId": text, "token": text, "manifestUrl": text, "expiresAt": text, "spentAt": text,
				"command": text, "insecureCommand": text, "nodeCommand": text, "insecureNodeCommand": text,
				"windowsNodeCommand": text, "insecureWindowsNodeCommand": text,
			}),
		},
		List: func(_ *route.Call) []norman.Object {
			objects := []norman.Object{}
			for _, d := range a.State.RegistrationTokens.List() {
				if !ofFleet(d.Value) {
					objects = append(objects, a.object(d.Value))
				}
			}
			return objects
		},
		Get: func(_ *route.Call, id string) (norman.Object, bool) {
			d, ok := a.State.RegistrationTokens.Get(strings.Replace(id, ":", "/", 1))
			if !ok || strings.Contains(id, "/") || ofFleet(d.Value) {
				return norman.Object{}, false
			}
			return a.object(d.Value), true
		},
	}
}

// ofFleet says that a token is for machines without a cluster, which /v3 does not have.
func ofFleet(t records.RegistrationToken) bool {
	return records.NewClusterKey(t.ClusterNamespace, t.ClusterName).Fleet()
}

func (a RegistrationTokens) object(t records.RegistrationToken) norman.Object {
	summary := k8sobjects.Well()
	join, err := a.Registration.JoinCommandFor(t)
	if errors.Is(err, registration.ErrNoServerURL) {
		summary = k8sobjects.NewSummary(k8sobjects.Pending, "error", err.Error())
	} else if err != nil {
		summary = k8sobjects.NewSummary(k8sobjects.Error, "error", err.Error())
	}
	spent := ""
	if at := join.Import.Spent; !at.IsZero() && err == nil {
		spent = at.UTC().Format(time.RFC3339)
		summary = k8sobjects.NewSummary(k8sobjects.Active, "no", "spent at "+spent+", when the first agent was let in: it lets in none but agents of the same Kubernetes")
	}
	expires := ""
	if !t.Expires.IsZero() {
		expires = t.Expires.UTC().Format("2006-01-02T15:04:05Z")
		if !a.Now().Before(t.Expires) {
			summary = k8sobjects.NewSummary(k8sobjects.Error, "error", "the token expired at "+expires+": delete it to get a fresh one")
		}
	}
	if err == nil && join.Import.Command == "" {
		join.Import.Command, join.Import.Insecure = notImported, notImported
	}
	o := norman.Object{ID: t.ClusterID + ":" + t.Name, Fixed: true, Fields: map[string]any{
		"name": t.Name, "clusterId": t.ClusterID, "namespaceId": nil, "token": t.Token, "manifestUrl": join.Import.ManifestURL, "expiresAt": expires, "spentAt": spent,
		// Windows hosts lead nowhere yet, and neither does a command for them.
		"command": join.Import.Command, "insecureCommand": join.Import.Insecure,
		"nodeCommand": join.NodeCommand, "insecureNodeCommand": join.InsecureNodeCommand,
		"windowsNodeCommand": "", "insecureWindowsNodeCommand": "",
		"created": t.Created, "creatorId": nil, "labels": map[string]string{}, "annotations": map[string]string{},
	}}
	summary.Into(o.Fields)
	return o
}

// notImported stands where an imported cluster has its command. Terraform's provider takes a token without one for unfinished, and asks again
// for 27 seconds whenever it reads a cluster, for each.
const notImported = `echo "this cluster is not imported: the server makes it of hosts, which join it with nodeCommand" >&2; false`

// dnsLabel is what a name may look like.
var dnsLabel = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) })

// Create answers with the commands, which the CLI prints from there.
func (a RegistrationTokens) Create(c *Request, in norman.Input) (route.Answer, error) {
	clusterID, err := in.Required("clusterId")
	if err != nil {
		return route.Answer{}, err
	}
	name, err := in.String("name")
	if err != nil {
		return route.Answer{}, err
	}
	if name == "" {
		name = "crt-" + randomid.ID(5)
	}
	if !dnsLabel().MatchString(name) {
		return route.Answer{}, norman.Invalid(norman.InvalidCharacters, "name",
			"%.80q is not a valid name: lower-case letters, digits and dashes, at most 63, no dash at either end", name)
	}
	cluster, ok := visibleCluster(a.State, c.Call, clusterID)
	if !ok {
		return route.Answer{}, norman.Invalid(norman.InvalidReference, "clusterId", "there is no cluster %q", clusterID)
	}
	if !auth.May(c.Who, auth.Create, auth.In(clusterID, auth.RegistrationToken)) {
		return route.Answer{}, c.Denied()
	}
	t := registration.NewToken(cluster.Value, name, a.Now())
	t.CreatorID = c.Who.UserID
	if _, err := a.State.RegistrationTokens.Create(c.Ctx(), t.Key(), t); err != nil {
		if _, exists := errors.AsType[*store.ExistsError](err); exists {
			return route.Answer{}, &norman.Error{
				Status: http.StatusConflict, Code: norman.AlreadyExists, Field: "name", Message: "cluster " + clusterID + " has a token " + name + " already",
			}
		}
		return route.Answer{}, err
	}
	object := a.object(t)
	return c.Shown(http.StatusCreated, object), nil
}

// Remove ends a token. The default token is made anew at once: that is
// how it is rotated, and a cluster is never without one.
func (a RegistrationTokens) Remove(c *Request) (route.Answer, error) {
	d, ok := a.State.RegistrationTokens.Get(strings.Replace(c.id, ":", "/", 1))
	if !ok || ofFleet(d.Value) {
		return route.Answer{}, norman.Missing("clusterRegistrationToken", c.id)
	}
	cluster, exists := a.State.ClustersByID.First(d.Value.ClusterID)
	if d.Value.Name != registration.DefaultToken || !exists {
		return route.Answer{Status: http.StatusNoContent}, a.State.RegistrationTokens.Delete(c.Ctx(), d.Key, 0)
	}
	d.Value = registration.NewToken(cluster.Value, d.Value.Name, a.Now())
	if _, err := a.State.RegistrationTokens.Update(c.Ctx(), d); err != nil {
		return route.Answer{}, err
	}
	return route.Answer{Status: http.StatusNoContent}, nil
}

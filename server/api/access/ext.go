// /apis/ext.cattle.io/v1: tokens, kubeconfigs and changes of passwords in the form of Kubernetes, which newer
// clients ask for. The tokens are those of /v3, with the same rules: their secret is shown once, when one is made.
//
// Wire source: rancher/rancher pkg/apis/ext.cattle.io/v1.

package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/listing"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
)

const (
	apiVersion = "ext.cattle.io/v1"
	// maxClusters bounds the clusters of a kubeconfig.
	maxClusters = 1000
)

// ExtAPI serves tokens and kubeconfigs.
type ExtAPI struct {
	State       *state.State
	Auth        *auth.Auth
	Tokens      management.Tokens
	Kubeconfigs management.Kubeconfigs
	// People set passwords of others.
	People *people.People
	Now    func() time.Time
}

// extToken is a token. Keys: ext.cattle.io/v1 Token.
type extToken struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              extTokenSpec   `json:"spec"`
	Status            extTokenStatus `json:"status"`
}

// extTokenSpec is what is asked for; TTL is in milliseconds.
type extTokenSpec struct {
	UserID      string `json:"userID,omitempty"`
	Kind        string `json:"kind,omitempty"`
	Description string `json:"description,omitempty"`
	TTL         int64  `json:"ttl"`
	Enabled     *bool  `json:"enabled,omitempty"`
	ClusterName string `json:"clusterName,omitempty"`
	// UserPrincipal is read and not kept: a token is its maker's.
	UserPrincipal json.RawMessage `json:"userPrincipal,omitempty"`
}

// extTokenStatus is what became of it. Value and BearerToken are in the answer of the request that makes one alone.
type extTokenStatus struct {
	Value       string `json:"value,omitempty"`
	BearerToken string `json:"bearerToken,omitempty"`
	Current     bool   `json:"current"`
	Expired     bool   `json:"expired"`
	ExpiresAt   string `json:"expiresAt"`
	LastUsedAt  string `json:"lastUsedAt,omitempty"`
}

func (a *ExtAPI) token(c *route.Call, t records.Token) extToken {
	enabled := !t.Disabled
	one := extToken{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: "Token"},
		ObjectMeta: metav1.ObjectMeta{Name: t.Name, CreationTimestamp: metav1.NewTime(t.Created), Labels: map[string]string{"cattle.io/user-id": t.UserID}},
		Spec:       extTokenSpec{UserID: t.UserID, Description: t.Description, TTL: t.TTLMillis, Enabled: &enabled, ClusterName: t.ClusterID},
		Status:     extTokenStatus{Current: t.Name == c.Who.TokenName, Expired: auth.Expired(t, a.Now())},
	}
	if t.Session {
		one.Spec.Kind = "session"
	}
	if !t.Expires.IsZero() {
		one.Status.ExpiresAt = t.Expires.UTC().Format(time.RFC3339)
	}
	if last := a.Auth.Uses.Last(t.Name); !last.IsZero() {
		one.Status.LastUsedAt = last.UTC().Format(time.RFC3339)
	}
	return one
}

// sees says whether the caller sees a token: their own, and administrators those of all.
func sees(who auth.Identity, t records.Token) bool {
	return auth.May(who, auth.Get, auth.Object{Kind: auth.Token, Key: t.Name, Owner: t.UserID}) || auth.May(who, auth.ListAll, auth.Object{Kind: auth.Token})
}

// List is GET of the tokens.
func (a *ExtAPI) List(c *route.Call) (route.Answer, error) {
	if watch := c.Query().Get("watch"); watch == "true" || watch == "1" {
		return route.Answer{}, listing.Refuse(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "tokens are listed here, and not watched; `drover tokens ls -w` watches them")
	}
	items := []extToken{}
	for _, t := range a.Auth.Tokens() {
		if sees(c.Who, t) {
			items = append(items, a.token(c, t))
		}
	}
	c.SendPlain(http.StatusOK, map[string]any{
		"apiVersion": apiVersion, "kind": "TokenList", "metadata": map[string]any{"resourceVersion": fmt.Sprint(a.State.Store.Revision())}, "items": items,
	})
	return route.Answer{}, nil
}

// Token is the token of the path, for those who see it. The error is a refusal of 404.
func (a *ExtAPI) Token(c *route.Call) (records.Token, error) {
	name := c.Param("name")
	t, ok := a.Auth.Token(name)
	if !ok || !sees(c.Who, t) {
		return t, listing.Refuse(http.StatusNotFound, metav1.StatusReasonNotFound, "tokens.ext.cattle.io %.80q not found", name)
	}
	return t, nil
}

// Get is GET of one.
func (a *ExtAPI) Get(c *route.Call, t records.Token) (route.Answer, error) {
	c.SendPlain(http.StatusOK, a.token(c, t))
	return route.Answer{}, nil
}

// Remove is DELETE of one.
func (a *ExtAPI) Remove(c *route.Call, t records.Token) (route.Answer, error) {
	switch {
	case !auth.May(c.Who, auth.Action("revoke"), auth.Object{Kind: auth.Token, Key: t.Name, Owner: t.UserID}):
		return route.Answer{}, listing.Refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "user %s may not delete this token", c.Who.Username)
	case t.Name == c.Who.TokenName && c.Who.Session:
		return route.Answer{}, invalid("this is the token of the session that asks: log out instead")
	}
	if err := a.Auth.RevokeToken(c.Ctx(), t.Name); err != nil {
		return route.Answer{}, err
	}
	c.SendPlain(http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: http.StatusOK})
	return route.Answer{}, nil
}

func invalid(format string, args ...any) error {
	return listing.Refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, format, args...)
}

// readExt reads a body; what it does not know is left out, as clients send whole objects, unless they ask for strictness.
func readExt(c *route.Call, into any) error {
	data, err := norman.ReadBody(c.W, c.R, 64<<10)
	if err != nil {
		return invalid("%v", err)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if data = bytes.TrimSpace(data); data[0] != '{' {
		return invalid("the body is not an object of ext.cattle.io/v1 in JSON, but begins with %.20q", data)
	}
	lines := json.NewDecoder(bytes.NewReader(data))
	if c.Query().Get("fieldValidation") == "Strict" {
		lines.DisallowUnknownFields()
	}
	err = lines.Decode(into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return invalid("%s: is of the type %s, which it is not here", wrong.Field, wrong.Value)
	}
	if err != nil {
		return invalid("the body is not an object of ext.cattle.io/v1 in JSON: %.200s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

func checked(c *route.Call, description, userID string) error {
	if userID != "" && userID != c.Who.UserID {
		return listing.Refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "spec.userID: tokens are made for oneself alone")
	}
	if err := norman.CheckDescription(description); err != nil {
		return invalid("spec.description: %v", err)
	}
	return nil
}

// cluster is one that the caller may see, by its management ID.
func (a *ExtAPI) cluster(c *route.Call, id string) (records.Cluster, error) {
	d, ok := a.State.ClustersByID.First(id)
	if !ok || !auth.May(c.Who, auth.Get, auth.OfCluster(id)) {
		return records.Cluster{}, invalid("there is no cluster %.80q", id)
	}
	return d.Value, nil
}

// Create is POST of a token; the answer is the only one that has its secret.
func (a *ExtAPI) Create(c *route.Call) (route.Answer, error) {
	var request extToken
	if err := readExt(c, &request); err != nil {
		return route.Answer{}, err
	}
	if err := checked(c, request.Spec.Description, request.Spec.UserID); err != nil {
		return route.Answer{}, err
	}
	if request.Spec.ClusterName != "" {
		if _, err := a.cluster(c, request.Spec.ClusterName); err != nil {
			return route.Answer{}, err
		}
	}
	if request.Spec.Enabled != nil && !*request.Spec.Enabled {
		return route.Answer{}, invalid("spec.enabled: a token that is disabled from the start is of no use; delete one to end it")
	}
	ttl, _, err := a.Tokens.TTL(request.Spec.TTL)
	if err != nil {
		return route.Answer{}, invalid("spec.%v", err)
	}
	text, t, err := a.Auth.IssueToken(c.Ctx(), records.Token{
		UserID: c.Who.UserID, Description: request.Spec.Description, ClusterID: request.Spec.ClusterName, TTLMillis: ttl.Milliseconds(),
	})
	if err != nil {
		return route.Answer{}, err
	}
	made := a.token(c, t)
	_, made.Status.Value, _ = strings.Cut(text, ":")
	made.Status.BearerToken = "ext/" + text
	c.Concern(t.Name)
	c.SendPlain(http.StatusCreated, made)
	return route.Answer{}, nil
}

// extKubeconfig is a kubeconfig. Keys: ext.cattle.io/v1 Kubeconfig.
type extKubeconfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		// Clusters are management IDs; "*" is all that the caller may see. TTL is in seconds, as there.
		Clusters       []string `json:"clusters"`
		CurrentContext string   `json:"currentContext,omitempty"`
		Description    string   `json:"description,omitempty"`
		TTL            int64    `json:"ttl,omitempty"`
	} `json:"spec"`
	Status struct {
		Value   string   `json:"value,omitempty"`
		Tokens  []string `json:"tokens"`
		Summary string   `json:"summary"`
	} `json:"status"`
}

// Kubeconfig makes a kubeconfig of the caller, with a token for each cluster in it, which is good there alone. It is not kept: there
// is nothing to read again.
func (a *ExtAPI) Kubeconfig(c *route.Call) (route.Answer, error) {
	var k extKubeconfig
	if err := readExt(c, &k); err != nil {
		return route.Answer{}, err
	}
	if err := checked(c, k.Spec.Description, ""); err != nil {
		return route.Answer{}, err
	}
	clusters, err := a.clusters(c, k.Spec.Clusters)
	if err != nil {
		return route.Answer{}, err
	}
	current := clusters[0].Name
	if k.Spec.CurrentContext != "" {
		current = ""
		for _, one := range clusters {
			if one.ID == k.Spec.CurrentContext || one.Name == k.Spec.CurrentContext {
				current = one.Name
			}
		}
		if current == "" {
			return route.Answer{}, invalid("spec.currentContext: %.80q is none of spec.clusters", k.Spec.CurrentContext)
		}
	}
	if k.Spec.TTL < 0 {
		return route.Answer{}, invalid("spec.ttl: %d is less than 0", k.Spec.TTL)
	}
	var names []string
	var made time.Time
	for i, one := range clusters {
		request := a.Kubeconfigs.Token(c.Who.UserID, one.ID, "kubeconfig: "+k.Spec.Description)
		if asked := k.Spec.TTL * 1000; asked > 0 && asked/1000 == k.Spec.TTL && (request.TTLMillis == 0 || asked < request.TTLMillis) {
			request.TTLMillis = asked
		}
		text, t, err := a.Auth.IssueToken(c.Ctx(), request)
		if err != nil {
			for _, name := range names { // which are of no use
				err = errors.Join(err, a.Auth.RevokeToken(c.Ctx(), name))
			}
			return route.Answer{}, err
		}
		clusters[i].Token, made = text, t.Created
		names = append(names, t.Name)
		c.Concern(t.Name)
	}
	if k.Status.Value, err = a.Kubeconfigs.Text(c, clusters, current); err != nil {
		return route.Answer{}, err
	}
	k.TypeMeta = metav1.TypeMeta{APIVersion: apiVersion, Kind: "Kubeconfig"}
	k.ObjectMeta = metav1.ObjectMeta{Name: names[0], CreationTimestamp: metav1.NewTime(made)}
	k.Status.Tokens, k.Status.Summary = names, "Complete"
	c.SendPlain(http.StatusCreated, k)
	return route.Answer{}, nil
}

func (a *ExtAPI) clusters(c *route.Call, ids []string) ([]management.KubeconfigCluster, error) {
	if len(ids) == 1 && ids[0] == "*" {
		ids = nil
		for _, d := range a.State.Clusters.List() {
			if auth.May(c.Who, auth.Get, auth.OfCluster(d.Value.ID)) {
				ids = append(ids, d.Value.ID)
			}
		}
	}
	if len(ids) == 0 || len(ids) > maxClusters {
		return nil, invalid("spec.clusters: has %d clusters; from 1 to %d are possible", len(ids), maxClusters)
	}
	var all []management.KubeconfigCluster
	for _, id := range ids {
		cl, err := a.cluster(c, id)
		if err != nil {
			return nil, err
		}
		all = append(all, management.KubeconfigCluster{Name: cl.Name, ID: cl.ID})
	}
	return all, nil
}

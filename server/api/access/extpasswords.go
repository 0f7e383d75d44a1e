package access

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/discovery"
	"github.com/drover-project/drover/server/listing"
	"github.com/drover-project/drover/server/people"
)

// passwordChangeRequest asks for another password. Keys: ext.cattle.io/v1 PasswordChangeRequest.
type passwordChangeRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              passwordChangeSpec    `json:"spec"`
	Status            passwordChangeOutcome `json:"status"`
}

// passwordChangeSpec is whose password, and which. The current one is needed for one's own.
type passwordChangeSpec struct {
	UserID          string `json:"userID,omitempty"`
	CurrentPassword string `json:"currentPassword,omitempty"`
	NewPassword     string `json:"newPassword,omitempty"`
}

// passwordChangeOutcome is what became of it.
type passwordChangeOutcome struct {
	Conditions []metav1.Condition `json:"conditions"`
	Summary    string             `json:"summary"`
}

// ChangePassword is POST of a PasswordChangeRequest: of oneself by the current password, of others by the right to set it.
// The answer has no password.
func (a *ExtAPI) ChangePassword(c *route.Call) (route.Answer, error) {
	var request passwordChangeRequest
	if err := readExt(c, &request); err != nil {
		return route.Answer{}, err
	}
	id := cmp.Or(request.Spec.UserID, c.Who.UserID)
	least, err := strconv.Atoi(a.Tokens.Settings.Get("password-min-length").Value)
	if err != nil { // checked when it was stored
		least = 12
	}
	about := auth.Object{Kind: auth.User, Key: id, Owner: id}
	switch {
	case id == c.Who.UserID:
		err = a.Auth.ChangePassword(c.Ctx(), c.Who, request.Spec.CurrentPassword, request.Spec.NewPassword, least)
	case !auth.May(c.Who, auth.Get, about):
		return route.Answer{}, invalid("spec.userID: there is no user %.80q", id)
	case !auth.May(c.Who, auth.Action("setpassword"), about):
		return route.Answer{}, listing.Refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "user %s may not set the password of user %s", c.Who.Username, id)
	default:
		c.Concern(id)
		_, err = a.People.SetPassword(c.Ctx(), c.Who, id, request.Spec.NewPassword, least)
	}
	if err != nil {
		return route.Answer{}, passwordFault(err)
	}
	c.SendPlain(http.StatusCreated, passwordChangeRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: "PasswordChangeRequest"}, Spec: passwordChangeSpec{UserID: id},
		Status: passwordChangeOutcome{Summary: "Completed", Conditions: []metav1.Condition{{
			Type: "PasswordUpdated", Status: metav1.ConditionTrue, Reason: "Changed", LastTransitionTime: metav1.NewTime(a.Now()),
		}}},
	})
	return route.Answer{}, nil
}

// passwordFault is why a password was not changed.
func passwordFault(err error) error {
	if bad, ok := errors.AsType[*auth.PasswordError](err); ok {
		field := "newPassword"
		if bad.Current {
			field = "currentPassword"
		}
		return invalid("spec.%s: %s", field, bad.Reason)
	}
	if refused, ok := errors.AsType[*people.RefusedError](err); ok {
		return listing.Refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "%s", refused.Reason)
	}
	return err
}

// SelfUser is POST of a SelfUser: who asks.
func (a *ExtAPI) SelfUser(c *route.Call) (route.Answer, error) {
	c.SendPlain(http.StatusCreated, map[string]any{
		"apiVersion": apiVersion, "kind": "SelfUser", "metadata": map[string]any{}, "status": map[string]string{"userID": c.Who.UserID},
	})
	return route.Answer{}, nil
}

// ExtGroup is the group with its types, for discovery.
func ExtGroup() discovery.Group {
	type kind struct {
		plural, singular, name string
		verbs                  metav1.Verbs
		spec                   *discovery.Schema
	}
	text := discovery.Text
	group, version := "ext.cattle.io", "v1"
	made := discovery.Group{Name: group, Version: version}
	var kinds []discovery.SchemaKind
	for _, k := range []kind{
		{"tokens", "token", "Token", metav1.Verbs{"create", "delete", "get", "list"}, discovery.Struct("What is asked for.", map[string]*discovery.Schema{
			"userID": text("Oneself."), "kind": text("session for one of a login."), "description": text("What it is for."), "ttl": discovery.Whole("How long it counts, in milliseconds; 0 is as long as the settings allow."),
			"enabled": discovery.Flag("Whether it counts."), "clusterName": text("The id of the only cluster that it is for."), "userPrincipal": discovery.Open("Not kept."),
		})},
		{"kubeconfigs", "kubeconfig", "Kubeconfig", metav1.Verbs{"create"}, discovery.Struct("What is asked for.", map[string]*discovery.Schema{
			"clusters": discovery.List("Ids of clusters, or * for all.", text("")), "currentContext": text("One of them."), "description": text("What it is for."), "ttl": discovery.Whole("How long it counts, in seconds."),
			"includeDefaultEntry": discovery.Flag("Not used."),
		})},
		{"passwordchangerequests", "passwordchangerequest", "PasswordChangeRequest", metav1.Verbs{"create"}, discovery.Struct("Whose password, and which.", map[string]*discovery.Schema{
			"userID": text("Whose; oneself where it is empty."), "currentPassword": text("Needed for one's own."), "newPassword": text("The new one."),
		})},
		{"selfusers", "selfuser", "SelfUser", metav1.Verbs{"create"}, discovery.Struct("Empty.", nil)},
	} {
		made.Resources = append(made.Resources, metav1.APIResource{Name: k.plural, SingularName: k.singular, Kind: k.name, Verbs: k.verbs})
		// kubectl sees by the patches of a kind whether the server looks at fields itself, as this one does; without them
		// it refuses to create anything.
		kinds = append(kinds, discovery.SchemaKind{GVK: discovery.GVK{Group: group, Version: version, Kind: k.name}, Plural: k.plural, Changes: true, Schema: discovery.Struct("", map[string]*discovery.Schema{
			"apiVersion": text("The group and version of the object."), "kind": text("The kind of the object."), "metadata": discovery.Open("What all objects have."), "spec": k.spec, "status": discovery.Open("What became of it."),
		})})
	}
	made.OpenAPI = discovery.OpenAPI(kinds...)
	return made
}

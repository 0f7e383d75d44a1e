// What stands beside clusters: fleets, versions, people and what they set.

package facts

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/ui"
	"github.com/drover-project/drover/server/views"
)

func (s *Source) fleets(who auth.Identity) []apitypes.Fleet {
	var all []apitypes.Fleet
	for _, d := range s.State.Fleets.List() {
		if !auth.May(who, auth.ListAll, auth.Object{Kind: auth.Fleet, Key: d.Value.ID}) {
			continue
		}
		var machines []records.Machine
		for _, m := range s.machinesOf(who, records.ClusterKey(d.Key)) {
			machines = append(machines, m.Value)
		}
		all = append(all, views.OfFleet(d, machines, s.underWay(who, d.Value.ID, records.ClusterKey(d.Key))))
	}
	return all
}

func (s *Source) versions() apitypes.Versions {
	known, answer := s.Versions(), apitypes.Versions{Source: views.OfVersionSource(s.VersionStatus())}
	for _, runtime := range versions.Runtimes() {
		for _, name := range known.List(runtime) {
			answer.Data = append(answer.Data, views.OfVersion(known, name))
		}
	}
	return answer
}

func (s *Source) tokens(who auth.Identity) []apitypes.Token {
	var all []apitypes.Token
	for _, d := range s.State.TokensByUser.Find(who.UserID) {
		all = append(all, views.OfToken(d.Value, s.Used(d.Key)))
	}
	return all
}

func (s *Source) users(who auth.Identity) []ui.User {
	var all []ui.User
	for _, d := range s.State.Users.List() {
		u := d.Value
		if !auth.May(who, auth.Get, auth.Object{Kind: auth.User, Key: u.ID, Owner: u.ID}) {
			continue
		}
		shown := ui.User{
			ID: u.ID, Username: u.Username, Name: u.DisplayName, Description: u.Description, Disabled: u.Disabled, MustChange: u.MustChange,
			Created: u.Created, Me: u.ID == who.UserID,
		}
		for _, principal := range u.Principals() {
			for _, b := range s.State.BindingsBySubject.Find(principal) {
				if b.Value.Context() == roles.Global {
					shown.Roles = append(shown.Roles, b.Value.Role)
				}
			}
		}
		if u.Admin {
			shown.Roles = append(shown.Roles, roles.Admin)
		}
		slices.Sort(shown.Roles)
		shown.Roles = slices.Compact(shown.Roles)
		all = append(all, shown)
	}
	return all
}

func (s *Source) settings(who auth.Identity) []ui.Setting {
	var all []ui.Setting
	for _, one := range s.Settings.List() {
		if auth.May(who, auth.Get, auth.Object{Kind: auth.Setting, Key: one.Name}) {
			all = append(all, ui.Setting{Name: one.Name, About: strings.ReplaceAll(one.About, "`", ""), Value: one.Value, Source: string(one.Source), Customized: one.Customized, ReadOnly: one.ReadOnly})
		}
	}
	return all
}

func (s *Source) servers(who auth.Identity) []ui.Server {
	if s.Presence == nil || !auth.May(who, auth.ListAll, auth.Object{Kind: auth.Tunnel}) {
		return nil
	}
	leader := ""
	if s.Leader != nil {
		leader = s.Leader()
	}
	var all []ui.Server
	for i, one := range s.Presence.Servers() {
		all = append(all, ui.Server{
			URL: one.URL, Version: one.Version, Started: one.Started, Here: i == 0,
			Leads: leader != "" && one.Identity == leader, Unled: leader == "" || one.Identity == "",
		})
	}
	return all
}

func (s *Source) audit(ctx context.Context, who auth.Identity, wanted ui.AuditWanted) (ui.AuditPart, error) {
	if !auth.May(who, auth.ListAll, auth.Object{Kind: auth.Audit}) {
		return ui.AuditPart{}, norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "user %s may not see the audit log", who.Username)
	}
	if s.Audit == nil {
		return ui.AuditPart{}, norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "this server keeps no audit log")
	}
	var found audit.Found
	var err error
	none := audit.Place{}
	latest := wanted.Before == none
	if wanted.After != none {
		found, err = s.Audit.After(ctx, wanted.Query, wanted.After, wanted.Most)
		latest = found.End != none
	} else {
		found, err = s.Audit.Before(ctx, wanted.Query, wanted.Before, wanted.Most)
	}
	if err != nil {
		return ui.AuditPart{}, err
	}
	part := ui.AuditPart{First: found.First, Last: found.Last, Latest: latest}
	part.Audit = apitypes.Audit{Server: s.Audit.Server, Level: int(s.Audit.Level()), Data: found.Entries, More: found.More, Torn: found.Torn}
	_, part.Lost = s.Audit.Totals()
	return part, nil
}

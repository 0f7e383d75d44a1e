// Package quotas bounds what each person, and all together, may keep at the server: clusters, machines, tokens, operations under way,
// and the bytes of their documents. The bounds are settings.
//
// All is decided in one place: every write to the store passes Check. It counts what is written during a person's request, which route.Call.Ctx
// says of its context, over any API, and machines, which register without a person. What the server
// writes by itself, and what a backup brings back, meets no quota.
//
// What one server admits it counts at once, what others have written as soon as it sees it: of several servers, a quota can be
// exceeded by what they write in the same moment.
package quotas

import (
	"context"
	"net/http"
	"strconv"
	"sync"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// Quota is a bound for all together, named as its setting.
type Quota string

// Quotas. Clusters are fleets, too, and Documents is in MiB.
const (
	Clusters   Quota = "quota-clusters"
	Documents  Quota = "quota-documents-mib"
	Machines   Quota = "quota-machines"
	Operations Quota = "quota-operations"
	Tokens     Quota = "quota-tokens"
)

// PerPerson is the bound for each person.
func (q Quota) PerPerson() Quota { return q + "-per-person" }

// what is the quota's subject.
var what = map[Quota]string{
	Clusters: "clusters and fleets", Documents: "MiB of documents", Machines: "machines", Operations: "operations under way", Tokens: "tokens",
}

// Code is that of the errors.
const Code = "QuotaExceeded"

// Quotas counts what there is.
type Quotas struct {
	state    *state.State
	settings *settings.Settings
	counted  map[store.Bindable]counted
	machines *store.Tally[records.Machine] // by the key of their cluster or fleet

	mu sync.Mutex
	// writing is what was admitted and is not written yet, by whose it is; that of all has no owner.
	writing map[growth]int64
}

// counted is a collection that is counted.
type counted struct {
	quota Quota
	// bytes says that its documents count for Documents, too.
	bytes bool
	owner func(value any) (user string, counts bool)
	of    func(user string) store.Sum
	all   func() store.Sum
}

// New has all writes of a state counted from now on. It is called before the first write.
func New(st *state.State, set *settings.Settings) *Quotas {
	q := &Quotas{state: st, settings: set, counted: map[store.Bindable]counted{}, writing: map[growth]int64{}}
	tally(q, st.Clusters, Clusters, true, func(c *records.Cluster) (string, bool) { return c.CreatorID, true })
	tally(q, st.Fleets, Clusters, true, func(f *records.Fleet) (string, bool) { return f.CreatorID, true })
	tally(q, st.Tokens, Tokens, false, func(t *records.Token) (string, bool) { return t.UserID, true })
	tally(q, st.Operations, Operations, false, func(o *operations.Operation) (string, bool) { return o.By, o.By != "" && !o.State.Ended() })
	tally(q, st.Objects, "", true, func(o *objects.Object) (string, bool) { return o.CreatorID, true })
	tally(q, st.GivenPlans, "", true, func(p *records.GivenPlan) (string, bool) { return p.By, true })
	tally(q, st.Projects, "", true, func(p *records.Project) (string, bool) { return p.CreatorID, true })
	tally(q, st.ProjectSecrets, "", true, func(s *records.ProjectSecret) (string, bool) { return s.CreatorID, true })
	tally(q, st.Preferences, "", true, func(p *records.Preference) (string, bool) { return p.UserID, true })
	tally(q, st.RegistrationTokens, "", true, func(t *records.RegistrationToken) (string, bool) { return t.CreatorID, true })
	tally(q, st.Users, "", true, func(u *records.User) (string, bool) { return u.CreatorID, true })
	tally(q, st.Bindings, "", true, func(b *roles.Binding) (string, bool) { return b.CreatorID, true })
	tally(q, st.GlobalRoles, "", true, func(r *roles.Role) (string, bool) { return r.CreatorID, true })
	tally(q, st.RoleTemplates, "", true, func(r *roles.Role) (string, bool) { return r.CreatorID, true })
	q.machines = store.NewTally(st.Machines, func(m *records.Machine) (string, bool) { return string(m.Cluster()), true })
	st.Check = q.Check
	return q
}

func tally[T any](q *Quotas, c *store.Collection[T], quota Quota, bytes bool, owner func(*T) (string, bool)) {
	sums := store.NewTally(c, owner)
	q.counted[c] = counted{quota: quota, bytes: bytes, of: sums.Of, all: sums.All, owner: func(value any) (string, bool) {
		v, ok := value.(T)
		if !ok {
			return "", false
		}
		return owner(&v)
	}}
}

type person struct{}

// By says of a context for whom what is written below it is written, by the ID of the user.
func By(ctx context.Context, user string) context.Context {
	if user == "" {
		return ctx
	}
	return context.WithValue(ctx, person{}, user)
}

// growth is by what a write lets grow what an owner has, or all have, of what a quota is for.
type growth struct {
	quota Quota
	owner string
	all   bool
}

// Check refuses a write that would go beyond a quota, with a *norman.Error that says which. It is for store.Options.
func (q *Quotas) Check(ctx context.Context, writes []store.Write) (ended func(), err error) {
	by, _ := ctx.Value(person{}).(string)
	grows := q.growth(by, writes)
	if len(grows) == 0 {
		return func() {}, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for g, more := range grows {
		if err := q.admit(g, more, by); err != nil {
			return nil, err
		}
	}
	q.count(grows, 1)
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.count(grows, -1)
	}, nil
}

// count is told what begins to be written, and what is written.
func (q *Quotas) count(grows map[growth]int64, sign int64) {
	for g, more := range grows {
		for _, of := range []growth{g, {quota: g.quota, all: true}} {
			if q.writing[of] += sign * more; q.writing[of] == 0 {
				delete(q.writing, of)
			}
		}
	}
}

// growth is by what writes would let grow what each owner has.
func (q *Quotas) growth(by string, writes []store.Write) map[growth]int64 {
	grows := map[growth]int64{}
	for _, w := range writes {
		if m, ok := w.Value.(records.Machine); ok && w.New {
			grows[growth{quota: Machines, owner: q.creator(m.Cluster())}]++
			continue
		}
		c, ok := q.counted[w.Of]
		if !ok || by == "" {
			continue
		}
		owner, counts := c.owner(w.Value)
		switch {
		case saves(w.Value):
			return nil
		case free(w.Value):
			continue
		}
		if counts && w.New && c.quota != "" {
			grows[growth{quota: c.quota, owner: owner}]++
		}
		if counts && c.bytes && w.Grows > 0 {
			grows[growth{quota: Documents, owner: owner}] += w.Grows
		}
	}
	return grows
}

// saves says that a write is a part of what gets a cluster back, which no quota stands in the way of.
func saves(value any) bool {
	o, ok := value.(operations.Operation)
	return ok && o.Kind == operations.KindRestore
}

// free says that a write is none that takes more room: what is on its way out, and a login, which ends older sessions instead.
func free(value any) bool {
	switch v := value.(type) {
	case records.Cluster:
		return !v.Deleting.IsZero()
	case records.Fleet:
		return !v.Deleting.IsZero()
	case records.Token:
		return v.Session
	}
	return false
}

// creator is the user who made a cluster or a fleet.
func (q *Quotas) creator(key records.ClusterKey) string {
	if key.Fleet() {
		d, _ := q.state.Fleets.Get(string(key))
		return d.Value.CreatorID
	}
	d, _ := q.state.Clusters.Get(string(key))
	return d.Value.CreatorID
}

// admit refuses what would go beyond the quota for all, or beyond the one for each person where neither the owner nor the caller is an administrator.
func (q *Quotas) admit(g growth, more int64, by string) error {
	if limit := q.limit(g.quota); limit > 0 && q.all(g.quota)+q.writing[growth{quota: g.quota, all: true}]+more > limit {
		return q.refused("this server", g.quota, what[g.quota])
	}
	limit := q.limit(g.quota.PerPerson())
	if limit == 0 || g.owner == "" || q.of(g.quota, g.owner)+q.writing[g]+more <= limit || q.administrator(g.owner) || q.administrator(by) {
		return nil
	}
	return q.refused("user "+q.name(g.owner), g.quota.PerPerson(), what[g.quota])
}

func (q *Quotas) refused(who string, setting Quota, what string) error {
	return norman.Errorf(http.StatusForbidden, Code, "quota exceeded: with this, %s would have more than the %d %s that the setting %s allows; "+
		"remove what is not needed any more, or have the setting raised by an administrator or a user with the role settings-manage", who, q.number(setting), what, setting)
}

// number is the value of a setting; 0 is no limit.
func (q *Quotas) number(setting Quota) int64 {
	n, err := strconv.ParseInt(q.settings.Get(string(setting)).Value, 10, 64)
	if err != nil { // checked when it was stored
		return 0
	}
	return n
}

// limit is a quota in the unit of what is counted, of which documents are bytes; 0 is none.
func (q *Quotas) limit(setting Quota) int64 {
	if setting == Documents || setting == Documents.PerPerson() {
		return q.number(setting) << 20
	}
	return q.number(setting)
}

// all is how much of a quota all have together.
func (q *Quotas) all(quota Quota) int64 {
	if quota == Machines {
		return int64(q.machines.All().Documents)
	}
	return q.sum(quota, counted.total)
}

// of is how much of a quota a user has.
func (q *Quotas) of(quota Quota, user string) int64 {
	if quota != Machines {
		return q.sum(quota, func(c counted) store.Sum { return c.of(user) })
	}
	n := 0
	for _, d := range q.state.ClustersByCreator.Find(user) {
		n += q.machines.Of(d.Key).Documents
	}
	for _, d := range q.state.FleetsByCreator.Find(user) {
		n += q.machines.Of(d.Key).Documents
	}
	return int64(n)
}

func (c counted) total() store.Sum { return c.all() }

func (q *Quotas) sum(quota Quota, of func(counted) store.Sum) (n int64) {
	for _, c := range q.counted {
		switch {
		case quota == Documents && c.bytes:
			n += of(c).Bytes
		case quota == c.quota:
			n += int64(of(c).Documents)
		}
	}
	return n
}

// administrator says whether the quotas for each person are not for a user.
func (q *Quotas) administrator(user string) bool {
	d, ok := q.state.Users.Get(user)
	return ok && q.state.GrantsOf(d.Value).Everything()
}

func (q *Quotas) name(user string) string {
	if d, ok := q.state.Users.Get(user); ok {
		return d.Value.Username
	}
	return user
}

// TokensPerPerson is how many tokens a user may have; 0 is any number.
func (q *Quotas) TokensPerPerson() int { return int(q.number(Tokens.PerPerson())) }

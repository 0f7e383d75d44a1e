// Users, roles, bindings and projects as a resource: what they are made of is in personobjects.go.

package kube

import (
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/people"
)

// ofPeople is the resource of a PersonKind.
func (a *API) ofPeople(k PersonKind) *Resource {
	r := &Resource{Definition: k.Definition, api: a, collection: k.Collection, within: k.Within}
	r.list = func() []object {
		all := k.List()
		objects := make([]object, len(all))
		for i, o := range all {
			objects[i] = a.person(o)
		}
		return objects
	}
	r.get = func(key string) (object, bool) {
		o, ok := k.Get(key)
		return a.person(o), ok
	}
	r.changed = func(c subscribe.Change) (string, *object, bool) {
		key, gone, ok := k.Changed(c)
		if gone == nil {
			return key, nil, ok
		}
		last := a.person(*gone)
		return key, &last, ok
	}
	asked := func(q *Request) personRequest {
		return personRequest{Ctx: q.Ctx(), Who: q.Who, Terms: people.Terms{DryRun: q.dryRun, Seen: q.seen}}
	}
	r.create = func(q *Request, content map[string]any) (object, error) {
		o, err := k.Create(asked(q), content)
		return a.person(o), err
	}
	r.update = func(q *Request, o object, content map[string]any) (object, error) {
		changed, err := k.Update(asked(q), PersonObject{Key: o.key, Content: o.content}, content)
		return a.person(changed), err
	}
	r.remove = func(q *Request, o object) error {
		q.seen = o.revision
		return q.explain(k.Remove(asked(q), PersonObject{Key: o.key, Content: o.content}), nameOf(o.key))
	}
	return r
}

func (a *API) person(o PersonObject) object {
	for i, cell := range o.Cells {
		if at, ok := cell.(time.Time); ok {
			o.Cells[i] = a.age(at)
		}
	}
	return object{key: o.Key, may: o.May, revision: o.Revision, content: o.Content, cells: o.Cells}
}

// refusal is why package people did not do something.
func (q *Request) refusal(refused *people.RefusedError, name string) error {
	switch refused.Why {
	case people.Escalation:
		status := apierrors.NewForbidden(q.res.groupResource(), name, nil)
		status.ErrStatus.Message = q.res.Plural + "." + q.res.Group + " is forbidden: " + refused.Reason
		return status
	case people.Taken:
		status := apierrors.NewAlreadyExists(q.res.groupResource(), name)
		status.ErrStatus.Message = refused.Reason
		status.ErrStatus.Code = http.StatusConflict
		return status
	default:
		return q.invalid(name, refused.Field, refused.Reason)
	}
}

// in stands for any object of a namespace.
func (r *Resource) in(namespace string) auth.Object {
	if r.within == nil {
		return auth.Object{Kind: r.Of}
	}
	return r.within(namespace)
}

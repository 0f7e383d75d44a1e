package api

import (
	"github.com/drover-project/drover/server/api/kube"
	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/native"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/steve"
)

// Rows are the routes of an API.
func Rows(a *API) []route.Row { return a.rows }

// AllVerbs are the verbs that there are.
func AllVerbs() []Verb { return allVerbs(native.API{}.VerbHandlers()) }

// Outline is the table of routes, of handlers as far as it is made of them.
func Outline(more ...Verb) []route.Row {
	return table(handlers{v3: &management.API{}, verbs: append(AllVerbs(), more...), kube: *kube.New(kube.Options{}), v1: steve.New(steve.Options{Others: Options{}.typesOfV1(nil)})})
}

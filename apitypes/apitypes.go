// Package apitypes has the JSON types of drover's own API, /v1-drover: what package client, the command line and programs of others
// ask and are answered. docs/reference/openapi.yaml is made of them.
//
// Times are RFC 3339 in UTC; an absent time or text is left out where its field says so, lists and maps are never null. No type holds
// a secret but Join, JoinTokens, AskedToken and ImportRequest. Fields are added and never change their meaning: a program that
// ignores what it does not know works under newer servers, too.
package apitypes

// List is a page of things. Continue is where the next page begins, absent on the last one.
type List[T any] struct {
	Data []T `json:"data"`
	// Total is how many there are on all pages.
	Total    int    `json:"total"`
	Continue string `json:"continue,omitempty"`
}

// NamedObject is a Secret or a ConfigMap, without what is in it.
type NamedObject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Type      string `json:"type,omitempty"`
}

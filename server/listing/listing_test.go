package listing

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

func read(t *testing.T, query string) (Options, error) {
	t.Helper()
	q, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	return Read(q, "metadata.name", "metadata.namespace")
}

func TestRead(t *testing.T) {
	o, err := read(t, "watch=true&resourceVersion=7&allowWatchBookmarks=1&timeoutSeconds=60&limit=5&continue=x&labelSelector=a%3Db&fieldSelector=metadata.name%3Dn")
	if err != nil || !o.Watch || o.Version != 7 || !o.Known || !o.Bookmarks || o.Timeout != time.Minute || o.Limit != 5 || o.Continue != "x" {
		t.Errorf("%+v %v", o, err)
	}
	if !o.Labels.Matches(labels.Set{"a": "b"}) || o.Labels.Matches(labels.Set{"a": "c"}) || !o.Fields.Matches(fields.Set{"metadata.name": "n"}) {
		t.Error("selectors")
	}
	if d := o.Duration(); d >= time.Minute || d < 50*time.Second {
		t.Errorf("lasts %v", d)
	}
	if o, err := read(t, "resourceVersion=0"); err != nil || o.Known || o.Duration() < MaxWatch/2 || o.Duration() > MaxWatch {
		t.Errorf("%+v %v", o, err)
	}
}

func TestReadRefuses(t *testing.T) {
	for query, code := range map[string]int32{
		"watch=maybe": 400, "resourceVersion=x": 400, "resourceVersion=-1": 400, "timeoutSeconds=-1": 400, "timeoutSeconds=1e9": 400, "limit=-1": 400,
		"labelSelector=%3D%3D": 400, "fieldSelector=spec.x%3D1": 400, "fieldSelector=a": 400, "sendInitialEvents=x": 400,
		"resourceVersionMatch=Newer": 422, "sendInitialEvents=true": 422, "watch=1&sendInitialEvents=true": 422, "watch=1&resourceVersionMatch=Exact": 422,
	} {
		_, err := read(t, query)
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Code != code || status.Status().Message == "" {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func TestBegin(t *testing.T) {
	for query, want := range map[string]Start{
		"watch=1": {Initial: true}, "watch=1&resourceVersion=0": {Initial: true}, "watch=1&resourceVersion=5": {Since: 5},
		"watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=5": {Initial: true, Mark: true},
		"watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan":                  {Since: 9},
	} {
		o, err := read(t, query)
		if got := o.Begin(9); err != nil || got != want {
			t.Errorf("%s: %+v %v", query, got, err)
		}
	}
}

func TestReach(t *testing.T) {
	at := int64(1)
	moving := func() int64 { at++; return at }
	if !Reach(t.Context(), moving, 4) {
		t.Error("it does not wait")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if Reach(ctx, func() int64 { return 1 }, 2) {
		t.Error("it is not there")
	}
}

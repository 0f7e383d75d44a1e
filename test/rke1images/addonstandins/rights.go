package main

// Rights: the API server is asked for each that an original uses, because most are used seldom.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// right is what a user may do: verbs on resources of a group, words between spaces; in a namespace, or everywhere.
type right struct{ verbs, group, resources, namespace string }

// may says which rights the pod's account lacks.
func (a api) may(ctx context.Context, rights []right) error {
	var lacks []error
	for _, r := range rights {
		for _, resource := range strings.Fields(r.resources) {
			for _, verb := range strings.Fields(r.verbs) {
				resource, sub, _ := strings.Cut(resource, "/")
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: r.namespace, Verb: verb, Group: r.group, Resource: resource, Subresource: sub},
				}}
				is, err := a.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
				if err != nil {
					return err
				}
				if !is.Status.Allowed {
					lacks = append(lacks, fmt.Errorf("may not %s %s.%s in namespace %q", verb, resource, r.group, r.namespace))
				}
			}
		}
	}
	return errors.Join(lacks...)
}

// tend does something every second, and says when its fault changes. ready is what it is worth.
func tend(ctx context.Context, ready *atomic.Bool, do func(context.Context) error) error {
	said := "-"
	for {
		err := do(ctx)
		ready.Store(err == nil)
		text := "it works"
		if err != nil {
			text = err.Error()
		}
		if text != said {
			said = text
			fmt.Println(text)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// serve answers at an address until the end, and answers the paths by ready.
func serve(ctx context.Context, address string, ready *atomic.Bool, paths ...string) {
	mux := http.NewServeMux()
	for _, path := range paths {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if !ready.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
	}
	listen(ctx, address, mux)
}

// listen serves in the background. A port that is taken ends the program, as it ends the originals.
func listen(ctx context.Context, address string, handler http.Handler) {
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.ListenAndServe(); err != nil && !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}()
}

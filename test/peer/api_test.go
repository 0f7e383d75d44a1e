//go:build e2e

// What an administrator asks of the server that keeps the plan Secrets, be it drover's or Kubernetes.

package peer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/drover-project/drover/plans"
)

// api is a server and an administrator of it.
type api struct {
	testing.TB
	url    string
	client *http.Client
	admin  string // token
}

// errStatus is an answer that is a refusal.
type errStatus struct {
	code int
	body string
}

func (e *errStatus) Error() string { return fmt.Sprintf("status %d: %s", e.code, e.body) }

func statusOf(err error) int {
	var status *errStatus
	if errors.As(err, &status) {
		return status.code
	}
	if err == nil {
		return http.StatusOK
	}
	return 0
}

// call asks the server; the answer goes into into unless that is nil.
func (a *api) call(method, path string, header map[string]string, body, into any) error {
	a.Helper()
	var reader io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		must(a.TB, err)
		reader = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(a.Context(), method, a.url+path, reader)
	must(a.TB, err)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, err := a.client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return &errStatus{response.StatusCode, string(text)}
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

func bearer(token string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + token}
}

// secret is a plan Secret on the wire.
type secret struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Metadata   struct {
		Name            string            `json:"name"`
		Namespace       string            `json:"namespace"`
		UID             string            `json:"uid,omitempty"`
		ResourceVersion string            `json:"resourceVersion,omitempty"`
		Labels          map[string]string `json:"labels,omitempty"`
		Annotations     map[string]string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Type string            `json:"type"`
	Data map[string][]byte `json:"data"`
}

func (s *secret) state() plans.State { return plans.State(s.Data[plans.KeyPlanState]) }

func (s *secret) outcome(t testing.TB) plans.Outcome {
	t.Helper()
	o, err := plans.ReadOutcome(s.Data)
	must(t, err)
	return o
}

func secretPath(name string) string { return "/api/v1/namespaces/" + namespace + "/secrets/" + name }

// secret is a plan Secret as an administrator sees it.
func (a *api) secret(name string) *secret {
	a.Helper()
	found := new(secret)
	must(a.TB, a.call(http.MethodGet, secretPath(name), bearer(a.admin), nil, found))
	return found
}

// change writes a plan Secret as an administrator, again after a conflict.
func (a *api) change(name string, change func(*secret)) *secret {
	a.Helper()
	for {
		next := a.secret(name)
		change(next)
		stored := new(secret)
		err := a.call(http.MethodPut, secretPath(name), bearer(a.admin), next, stored)
		if statusOf(err) == http.StatusConflict {
			continue
		}
		must(a.TB, err)
		return stored
	}
}

// deliver writes a plan as drover's own controllers do.
func (a *api) deliver(name string, plan []byte) {
	a.Helper()
	a.change(name, func(n *secret) { n.Data = plans.Deliver(n.Data, plan) })
}

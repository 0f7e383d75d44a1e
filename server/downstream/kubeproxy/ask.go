// What other surfaces of the server ask a cluster for a person, and read themselves.

package kubeproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/drover-project/drover/rke1/kube/bounds"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/tunnel/answers"
)

// Question is one request to the API of a cluster.
type Question struct {
	Method string
	// Path is that of the cluster's API, without escapes: /api/v1/namespaces/web/secrets.
	Path  string
	Query url.Values
	// Body is JSON; nil is none.
	Body []byte
}

// Reply is the whole answer of a cluster, which is bounded and otherwise as the cluster sent it.
type Reply struct {
	Status int
	Body   []byte
	// Warning is what this server has to say of it; empty for nothing.
	Warning string
}

// FailedError says that a question was not answered: the HTTP status that fits, and why.
type FailedError struct {
	Code    int
	Message string
}

func (e *FailedError) Error() string { return e.Message }

// Ask sends a question to a cluster with the rights of the caller there, as Serve does with whole requests, and reads the answer
// within the bounds of package bounds. The answer counts as being read until use returns. The request is the one that the question is
// asked for; of it nothing but its end and its host reaches the cluster. Errors are a *FailedError, that of the request's context, and
// that of use.
func (p *Proxy) Ask(r *http.Request, caller auth.Identity, id string, q Question, use func(Reply) error) error {
	cluster, denied := p.find(id, caller)
	if denied != nil {
		return &FailedError{denied.Code, denied.Message}
	}
	done, ok := p.busy.begin(caller.UserID)
	if !ok {
		s := tooMany()
		return &FailedError{s.Code, s.Message}
	}
	defer done()
	person := p.personOf(caller, auth.May(caller, auth.Own, auth.OfCluster(id)))
	ctx, end := p.within(r.Context(), id, caller, person)
	defer end()
	sent, err := q.request(ctx)
	if err != nil {
		return &FailedError{http.StatusBadRequest, err.Error()}
	}
	joins := p.joins(sent, q.Path, id, caller)
	to := &destination{proxy: p, cluster: cluster, caller: caller, person: person}
	to.sign(sent.Header, r.Host)
	reply, err := read(&answers.Transport{Next: to, Of: bounds.Of, From: "its API"}, sent, joins)
	if err != nil {
		if gone := r.Context().Err(); gone != nil {
			return gone
		}
		s := p.failure(cluster, err)
		return &FailedError{s.Code, s.Message}
	}
	return use(reply)
}

func (q Question) request(ctx context.Context) (*http.Request, error) {
	to := url.URL{Scheme: "https", Host: "127.0.0.1:6443", Path: q.Path, RawQuery: q.Query.Encode()}
	var body io.Reader = http.NoBody
	if q.Body != nil {
		body = bytes.NewReader(q.Body)
	}
	sent, err := http.NewRequestWithContext(ctx, q.Method, to.String(), body)
	if err != nil {
		return nil, fmt.Errorf("ask for %.200q: %w", q.Path, err)
	}
	sent.Header.Set("Accept", "application/json")
	if q.Body != nil {
		sent.Header.Set("Content-Type", "application/json")
	}
	return sent, nil
}

// read sends a request and reads the answer to its end.
func read(way http.RoundTripper, sent *http.Request, joins *joining) (reply Reply, err error) {
	answer, err := way.RoundTrip(sent)
	if err != nil {
		return Reply{}, err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	warning := joins.made(sent.Context(), answer)
	body, err := io.ReadAll(answer.Body)
	return Reply{Status: answer.StatusCode, Body: body, Warning: warning}, err
}

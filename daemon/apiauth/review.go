// The webhook: one TokenReview is one answer. A token that belongs to no user gets 200 and a status that says
// so: API servers take any other code for a fault of the webhook, and try again.

package apiauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

const (
	reviewGroup   = "authentication.k8s.io/"
	reviewVersion = reviewGroup + "v1beta1"
	reviewKind    = "TokenReview"
	// maxReview bounds a question. API servers take headers of at most 1 MiB, in which a token is.
	maxReview = 2 << 20
	// atOnce is how many reviews are under way; more wait. The oldest form of hashes takes 32 MiB for each.
	atOnce = 8
)

// review is the part of a TokenReview that is a question.
type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Token string `json:"token"`
	} `json:"spec"`
}

// answer is a TokenReview with its status.
type answer struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Status     status `json:"status"`
}

type status struct {
	Authenticated bool      `json:"authenticated"`
	User          *userInfo `json:"user,omitempty"`
	Error         string    `json:"error,omitempty"`
}

type webhook struct {
	cluster *Cluster
	uses    *uses
	log     *slog.Logger
	now     func() time.Time
	turns   chan struct{}
}

func newWebhook(o Options) *webhook {
	return &webhook{cluster: o.Cluster, uses: newUses(o), log: o.Logger, now: o.Now, turns: make(chan struct{}, atOnce)}
}

func (w *webhook) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+HealthPath, func(out http.ResponseWriter, _ *http.Request) {
		io.WriteString(out, "ok") // a caller that went away needs no answer
	})
	mux.HandleFunc("POST "+ReviewPath, w.review)
	return mux
}

func (w *webhook) review(out http.ResponseWriter, r *http.Request) {
	var asked review
	body, err := io.ReadAll(http.MaxBytesReader(out, r.Body, maxReview))
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	asked.APIVersion = cmp.Or(asked.APIVersion, reviewVersion)
	if err == nil && (asked.Kind != reviewKind || !strings.HasPrefix(asked.APIVersion, reviewGroup) || asked.Spec.Token == "") {
		err = errors.New("it is not a TokenReview of authentication.k8s.io with a token")
	}
	if err != nil {
		http.Error(out, "the question cannot be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	a := answer{APIVersion: asked.APIVersion, Kind: reviewKind, Status: w.status(r.Context(), asked.Spec.Token)}
	text, err := json.Marshal(a)
	if err != nil {
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	out.Header().Set("Content-Type", "application/json")
	out.Write(text) // a caller that went away needs no answer
}

// status is whom a token's text speaks for.
func (w *webhook) status(ctx context.Context, text string) status {
	c, err := parse(text)
	if err != nil {
		return status{Error: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, reviewLimit)
	defer cancel()
	select {
	case w.turns <- struct{}{}:
		defer func() { <-w.turns }()
	case <-ctx.Done():
		return status{Error: "too many tokens are reviewed at once; try again"}
	}
	k, err := w.cluster.known(ctx, c)
	if err != nil {
		w.log.Warn("a token cannot be looked up", "token", c.name, "error", err)
		return status{Error: "the tokens of this cluster cannot be read now: " + err.Error()}
	}
	who, err := c.who(k, w.now())
	if err != nil {
		w.log.Debug("a token is refused", "reason", err.Error())
		return status{Error: err.Error()}
	}
	w.uses.note(c, k)
	return status{Authenticated: true, User: who}
}

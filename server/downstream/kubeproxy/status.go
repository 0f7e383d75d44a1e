// What a caller gets when the cluster does not answer.

package kubeproxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	apinet "k8s.io/apimachinery/pkg/util/net"
)

// status is a Kubernetes Status.
type status struct {
	Kind       string   `json:"kind"`
	APIVersion string   `json:"apiVersion"`
	Metadata   struct{} `json:"metadata"`
	Status     string   `json:"status"`
	Reason     string   `json:"reason"`
	Code       int      `json:"code"`
	Message    string   `json:"message"`
	Details    *details `json:"details,omitempty"`
}

type details struct {
	RetryAfterSeconds int `json:"retryAfterSeconds"`
}

func refuse(w http.ResponseWriter, code int, reason, message string) {
	send(w, status{Reason: reason, Code: code, Message: message})
}

// tooMany refuses one request more than one person may have under way.
func tooMany() status {
	return status{
		Reason: "TooManyRequests", Code: http.StatusTooManyRequests, Details: &details{RetryAfterSeconds: 1},
		Message: fmt.Sprintf("you have %d requests to clusters under way, watches among them; end some of them", maxRequests),
	}
}

func send(w http.ResponseWriter, s status) {
	s.Kind, s.APIVersion, s.Status = "Status", "v1", "Failure"
	w.Header().Set("Content-Type", "application/json")
	if s.Code >= http.StatusInternalServerError {
		// kubectl asks for what there is first, and of an error of that request shows a sentence of its own and none of ours.
		// What it shows of any answer, once, are warnings.
		if warning, err := apinet.NewWarningHeader(299, "drover", s.Message); err == nil {
			w.Header().Set("Warning", warning)
		}
	}
	w.WriteHeader(s.Code)
	// The status line is out; a client that is gone is its own business.
	_ = json.NewEncoder(w).Encode(s)
}

// counts are how many requests are under way, by user. The zero value is ready.
type counts struct {
	mu sync.Mutex
	of map[string]int
}

// begin counts one more until done is called, or says that there are too many.
func (c *counts) begin(user string) (done func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[user] >= maxRequests {
		return nil, false
	}
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[user]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.of[user]--; c.of[user] == 0 {
			delete(c.of, user)
		}
	}, true
}

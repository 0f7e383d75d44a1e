// Package bounds says how large the answers of a cluster's Kubernetes API may be to questions that a program asks for itself, by their
// kinds, and reads lists page by page. An API server is no more to be trusted than the hosts that it runs on.
package bounds

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/tunnel/answers"
)

const (
	// object is how large one object may be: a cluster stores at most 1.5 MiB of one, which base64 makes larger. list is a page of
	// Page objects of an ordinary size, secrets a page of Secrets that are as large as they may be.
	object  = 4 << 20
	list    = 16 << 20
	secrets = 33 << 20
	// version and discovery are what an API says of itself: its version, and the kinds that it has, of which it may name groups without
	// end that each have an answer of their own.
	version     = 64 << 10
	discovery   = 8 << 20
	discoveries = 4 * discovery
	// within is how long a whole answer may take that is no watch.
	within = 30 * time.Second
)

// Of is the bound of the answer to a request to a Kubernetes API.
func Of(r *http.Request) answers.Bound {
	path, query := strings.Trim(r.URL.Path, "/"), r.URL.Query()
	switch path {
	case "version":
		return answers.Bound{What: "its version", Bytes: version, Within: within}
	case "metrics":
		return answers.Bound{What: "its metrics", Passed: true, Within: within} // who reads them line by line ends that
	}
	resource, one := resourceOf(strings.Split(path, "/"))
	switch watches := query.Get("watch"); {
	case resource == "":
		return answers.Bound{What: "the kinds that it has", Bytes: discovery, Together: discoveries, Within: within}
	case watches == "true" || watches == "1":
		return answers.Bound{What: "an event of " + resource, Each: object}
	case strings.Contains(path, "/proxy/"):
		return answers.Bound{What: "what a kubelet says", Bytes: list, Within: within}
	case one || r.Method != http.MethodGet:
		return answers.Bound{What: "an object of " + resource, Bytes: object, Within: within}
	case resource == "secrets":
		return answers.Bound{What: "a list of secrets", Bytes: secrets, Within: within}
	}
	return answers.Bound{What: "a list of " + resource, Bytes: list, Within: within}
}

// resourceOf is what the path of a request is about, "" for no resource, and whether it is one of them.
//
// Wire source: kubernetes/kubernetes staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go.
func resourceOf(parts []string) (resource string, one bool) {
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return "", false
	}
	if len(parts) > 2 && parts[0] == "namespaces" && !slices.Contains([]string{"status", "finalize"}, parts[2]) {
		parts = parts[2:]
	}
	return parts[0], len(parts) > 1
}

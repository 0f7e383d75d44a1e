// What the answers of a Docker engine may be, by their kinds.

package dial

import (
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/drover-project/drover/tunnel/answers"
)

const (
	// object is how large the answer to a question about one thing may be, list that about all containers; a container has about 2 KiB
	// there.
	object = 2 << 20
	list   = 16 << 20
	// output is how much of a container's output is read.
	output = 16 << 20
	// step is how large a line of a download's progress may be, and progress all of them.
	step     = 64 << 10
	progress = 64 << 20
	// within is how long an answer may take that does not wait for anything on the host.
	within = time.Minute
)

// answer is the bound of the answer to a request to Docker's API.
func answer(r *http.Request) answers.Bound {
	at := r.URL.Path
	if rest, ok := strings.CutPrefix(at, "/v"); ok {
		if version, after, ok := strings.Cut(rest, "/"); ok && strings.Trim(version, "0123456789.") == "" {
			at = "/" + after
		}
	}
	switch verb := path.Base(at); {
	case at == "/containers/json":
		return answers.Bound{What: "the list of its containers", Bytes: list, Within: within}
	case at == "/images/create":
		return answers.Bound{What: "the progress of a download", Bytes: progress, Each: step, Passed: true}
	case verb == "logs":
		return answers.Bound{What: "the output of a container", Bytes: output, Passed: true, Within: within}
	case verb == "archive" && r.Method == http.MethodGet:
		return answers.Bound{What: "files", Passed: true} // snapshots are; who reads them bounds them
	case verb == "wait", r.Method != http.MethodGet:
		return answers.Bound{What: "what became of a request", Bytes: object}
	}
	return answers.Bound{What: "what it says of " + strings.TrimPrefix(path.Dir(at), "/"), Bytes: object, Within: within}
}

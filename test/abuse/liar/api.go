package liar

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
)

// lying is one host or cluster, which lies to some questions and answers the others as an honest one does.
type lying struct {
	Liar
	lie Lie
	at  *regexp.Regexp

	mu     sync.Mutex
	asked  map[string]int
	config string // the kubeconfig that the agent gives
}

// Liar says who lies, and how.
type Liar struct {
	// Name is the host's or the cluster's.
	Name string `json:"name"`
	// Token is the registration token.
	Token string `json:"token"`
	// Lie is one of Lies, or of those that a host or a cluster has of its own.
	Lie string `json:"lie"`
	// At says which questions are lied to: a regular expression that "METHOD path" is matched against; empty is all.
	At string `json:"at"`
	// Docker makes a host one with a Docker engine.
	Docker bool `json:"docker"`
	// Trap is an address where no connection is to come.
	Trap string `json:"trap"`
	// Marker is a file that is not to be made; beside it, with .secret, is one with FileOfTheServer that is not to be sent.
	Marker string `json:"marker"`
}

func (l Liar) prepared() (*lying, error) {
	is := &lying{Liar: l, asked: map[string]int{}}
	var err error
	if is.lie, err = Find(l.Lie); err != nil && !own[l.Lie] {
		return nil, err
	}
	if is.at, err = regexp.Compile(l.At); err != nil {
		return nil, fmt.Errorf("read where %s lies: %w", l.Name, err)
	}
	return is, nil
}

// question is a request as tables of questions name it.
func question(r *http.Request) string {
	q := r.Method + " " + r.URL.Path
	if r.URL.Query().Get("watch") != "" {
		q = "WATCH " + r.URL.Path
	}
	return q
}

// or answers with the lie where there is one for the question, and as the honest handler does otherwise.
func (l *lying) or(honest http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := question(r)
		if strings.Contains(r.Header.Get("Authorization"), FileOfTheServer) {
			l.note("FILE "+q, true)
		}
		lies := l.lie.answer != nil && l.at.MatchString(q)
		l.note(q, lies)
		if lies {
			l.lie.answer(l, w, r)
			return
		}
		honest(w, r)
	})
}

// note counts a question. What an honest answer was given to begins with a space.
func (l *lying) note(q string, lied bool) {
	if !lied {
		q = " " + q
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.asked) < 1000 || l.asked[q] > 0 {
		l.asked[q]++
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
	_ = http.NewResponseController(w).Flush()
}

// kinds are those of the paths that the server asks for; of others the kind is made of the path.
var kinds = map[string]string{
	"nodes": "Node", "namespaces": "Namespace", "secrets": "Secret", "configmaps": "ConfigMap", "pods": "Pod", "serviceaccounts": "ServiceAccount",
	"clusterroles": "ClusterRole", "clusterrolebindings": "ClusterRoleBinding", "rolebindings": "RoleBinding", "etcdsnapshotfiles": "ETCDSnapshotFile",
	"subjectaccessreviews": "SubjectAccessReview",
}

// api is a Kubernetes API that has one node, and takes whatever it is given.
func (l *lying) api(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/version" {
		writeJSON(w, map[string]any{"major": "1", "minor": "34", "gitVersion": "v1.34.4+k3s1"})
		return
	}
	if strings.HasSuffix(r.URL.Path, "/metrics") {
		_, _ = io.WriteString(w, "apiserver_requested_deprecated_apis{group=\"a\",version=\"v1\",resource=\"b\"} 1\n")
		return
	}
	version := strings.TrimPrefix(path.Dir(r.URL.Path), "/apis/")
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	rest := parts[min(len(parts), 3):]
	if parts[0] == "api" {
		version, rest = "v1", parts[min(len(parts), 2):]
	} else if len(parts) > 2 {
		version = parts[1] + "/" + parts[2]
	}
	if len(rest) > 2 && rest[0] == "namespaces" && kinds[rest[2]] != "" {
		rest = rest[2:]
	}
	if len(rest) == 0 {
		http.NotFound(w, r)
		return
	}
	kind := cmp.Or(kinds[rest[0]], "Thing")
	switch {
	case r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch:
		l.taken(w, r, kind, version)
	case r.Method == http.MethodDelete:
		writeJSON(w, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"})
	case r.URL.Query().Get("watch") != "":
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case len(rest) == 1:
		items := []any{}
		switch kind {
		case "Node":
			items = append(items, json.RawMessage(l.node()))
		case "Namespace":
			items = append(items, object(kind, version, "default"), object(kind, version, "kube-system"))
		}
		writeJSON(w, map[string]any{"kind": kind + "List", "apiVersion": version, "metadata": map[string]any{"resourceVersion": "1"}, "items": items})
	default:
		o := object(kind, version, rest[1])
		if kind == "ConfigMap" {
			o["data"] = map[string]any{"ca.crt": "-"}
		}
		writeJSON(w, o)
	}
}

func (l *lying) node() string {
	return `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1","uid":"n1","resourceVersion":"1","labels":{"node-role.kubernetes.io/control-plane":"true"}},"status":{"conditions":[{"type":"Ready","status":"True"}],"nodeInfo":{"kubeletVersion":"v1.34.4+k3s1"}}}`
}

func object(kind, version, name string) map[string]any {
	return map[string]any{"kind": kind, "apiVersion": version, "metadata": map[string]any{"name": name, "uid": name, "resourceVersion": "1"}}
}

// taken gives back what was sent, as stored.
func (l *lying) taken(w http.ResponseWriter, r *http.Request, kind, version string) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	var o map[string]any
	token := strings.HasSuffix(r.URL.Path, "/token")
	if token {
		kind, version = "TokenRequest", "authentication.k8s.io/v1"
	}
	if json.Unmarshal(body, &o) != nil || o == nil { // protobuf
		o = object(kind, version, path.Base(r.URL.Path))
	}
	if token {
		o["status"] = map[string]any{"token": "liar", "expirationTimestamp": "2099-01-01T00:00:00Z"}
	}
	if kind == "SubjectAccessReview" {
		o["status"] = map[string]any{"allowed": true}
	}
	writeJSON(w, o)
}

// docker is a Docker engine that has nothing, and takes whatever it is given.
func (l *lying) docker(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Api-Version", "1.41")
	switch p := r.URL.Path; {
	case strings.HasSuffix(p, "/_ping"):
		_, _ = io.WriteString(w, "OK")
	case strings.HasSuffix(p, "/info"):
		writeJSON(w, map[string]any{"ID": l.Name, "Name": l.Name, "ServerVersion": "20.10.24", "OSType": "linux", "Architecture": "x86_64", "Driver": "overlay2", "CgroupDriver": "systemd", "DockerRootDir": "/var/lib/docker"})
	case strings.HasSuffix(p, "/containers/json"), strings.HasSuffix(p, "/images/json"):
		writeJSON(w, []any{})
	case strings.HasSuffix(p, "/containers/create"):
		w.WriteHeader(http.StatusCreated)
		writeJSON(w, map[string]any{"Id": "c1"})
	case strings.HasSuffix(p, "/wait"):
		writeJSON(w, map[string]any{"StatusCode": 0})
	case strings.HasSuffix(p, "/images/create"):
		_, _ = io.WriteString(w, "{\"status\":\"done\"}\n")
	case strings.Contains(p, "/images/"):
		writeJSON(w, map[string]any{"Id": "sha256:1", "Config": map[string]any{}})
	case r.Method == http.MethodPost, r.Method == http.MethodPut, r.Method == http.MethodDelete:
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, 64<<20))
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusNotFound)
		writeJSON(w, map[string]any{"message": "No such container"})
	}
}

// agent is the service of drover's agent.
func (l *lying) agent(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/kubeconfig":
		if l.Lie == ExecKubeconfig || l.Lie == FileKubeconfig {
			l.note(question(r), true)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		_, _ = io.WriteString(w, l.config)
	case "/v1/certificates":
		writeJSON(w, map[string]any{"certificates": []any{}})
	case "/v1/logs", "/v1/output":
		_, _ = io.WriteString(w, "nothing\n")
	case "/v1/status":
		writeJSON(w, map[string]any{})
	default:
		http.NotFound(w, r)
	}
}

// Package dockerstandin is a stand-in for a Docker engine: the part of its API that a
// node agent uses, on a unix socket, with containers in memory that run nothing. It
// records every request, and fails those that a test wants to fail. The real engine is
// used by the end-to-end tests.
package dockerstandin

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
)

// Request is one request that was made, without the version in its path.
type Request struct {
	Method, Path string
	Body         string
	Auth         string // X-Registry-Auth
}

// Image is an image that is on the stand-in, or that can be pulled.
type Image struct {
	Env, Entrypoint, Cmd []string
	Labels               map[string]string
	Pullable             bool // not there yet
}

// Container is one in memory.
type Container struct {
	ID, Name string
	Config   *container.Config
	Host     *container.HostConfig
	Running  bool
	// Restarting is a container that ends again and again, which Docker calls running, too.
	Restarting bool
	Log        string
	Starts     int
	// Code is what a container of OnStart ended with.
	Code int
}

// Engine is the stand-in.
type Engine struct {
	Socket string

	server *httptest.Server
	mu     sync.Mutex
	next   int
	all    []*Container
	images map[string]Image
	made   []Request
	fails  []failure
	watch  map[chan string]struct{}
	info   map[string]any
	files  map[string]File
	inside map[string][]string
	runs   map[string]func(Container) (code int, output string)
}

type failure struct {
	method, path, message string
	code                  int
}

// New starts a stand-in that ends with the test.
func New(t testing.TB) *Engine {
	t.Helper()
	e := &Engine{Socket: filepath.Join(t.TempDir(), "docker.sock"), images: map[string]Image{}, watch: map[chan string]struct{}{},
		files: map[string]File{}, inside: map[string][]string{}, runs: map[string]func(Container) (int, string){},
		info: map[string]any{"ServerVersion": "28.5.2", "OSType": "linux", "Name": "standin", "DockerRootDir": "/var/lib/docker", "Architecture": "x86_64"}}
	e.Listen(t)
	t.Cleanup(e.Stop)
	return e
}

// Listen starts to answer, again after Stop.
func (e *Engine) Listen(t testing.TB) {
	t.Helper()
	l, err := net.Listen("unix", e.Socket)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(e)
	server.Listener.Close()
	server.Listener = l
	server.Start()
	e.mu.Lock()
	e.server = server
	e.mu.Unlock()
}

// Stop ends the engine as a stopped dockerd does: the socket goes away.
func (e *Engine) Stop() {
	e.mu.Lock()
	server := e.server
	e.server = nil
	e.mu.Unlock()
	if server != nil {
		server.CloseClientConnections()
		server.Close()
	}
}

// Client is a client of the engine.
func (e *Engine) Client(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.NewClientWithOpts(client.WithHost("unix://"+e.Socket), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// AddImage puts an image on the engine.
func (e *Engine) AddImage(name string, i Image) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.images[name] = i
}

// SetInfo adds to the answer of GET /info.
func (e *Engine) SetInfo(key string, value any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.info[key] = value
}

// Fail makes the next request fail whose method is as given and whose path holds a text.
func (e *Engine) Fail(method, path string, code int, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fails = append(e.fails, failure{method, path, message, code})
}

// Requests are those that changed something, in order, and forgets them.
func (e *Engine) Requests() []Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	made := e.made
	e.made = nil
	return made
}

// Containers are the containers by name.
func (e *Engine) Containers() map[string]Container {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := map[string]Container{}
	for _, c := range e.all {
		m[c.Name] = *c
	}
	return m
}

// Change changes a container behind the agent's back; it must be there.
func (e *Engine) Change(t testing.TB, name string, f func(*Container)) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.find(name)
	if c == nil {
		t.Fatalf("no container %s", name)
	}
	f(c)
}

// Run starts a container of an image that is there, behind the agent's back.
func (e *Engine) Run(t testing.TB, name, image string, labels map[string]string) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	is, there := e.images[image]
	if !there || e.find(name) != nil {
		t.Fatalf("no image %s, or a container %s already", image, name)
	}
	c := &container.Config{Image: image, Labels: maps.Clone(labels)}
	merge(c, is)
	e.next++
	e.all = append(e.all, &Container{ID: fmt.Sprintf("%064x", e.next), Name: name, Config: c, Host: &container.HostConfig{}, Running: true, Starts: 1})
}

// Kill removes a container, as `docker rm --force` does.
func (e *Engine) Kill(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = slices.DeleteFunc(e.all, func(c *Container) bool { return c.Name == name })
	e.emit("destroy", name)
}

func (e *Engine) find(name string) *Container {
	for _, c := range e.all {
		if c.Name == name || c.ID == name {
			return c
		}
	}
	return nil
}

func (e *Engine) emit(action, name string) {
	line := fmt.Sprintf(`{"Type":"container","Action":%q,"Actor":{"Attributes":{"name":%q}}}`+"\n", action, name)
	for ch := range e.watch {
		select {
		case ch <- line:
		default:
		}
	}
}

// ServeHTTP answers.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if strings.HasPrefix(path, "/v1.") {
		_, path, _ = strings.Cut(path[1:], "/")
		path = "/" + path
	}
	w.Header().Set("Api-Version", "1.47")
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		query := ""
		if r.URL.RawQuery != "" {
			query = "?" + r.URL.Query().Encode()
		}
		text := strings.TrimSpace(string(body))
		if strings.HasSuffix(path, "/archive") {
			text = fmt.Sprintf("%d bytes", len(body))
		}
		e.made = append(e.made, Request{r.Method, path + query, text, r.Header.Get("X-Registry-Auth")})
	}
	for i, f := range e.fails {
		if f.method == r.Method && strings.Contains(path+"?"+r.URL.RawQuery, f.path) {
			e.fails = slices.Delete(e.fails, i, i+1)
			e.mu.Unlock()
			refuse(w, f.code, f.message)
			return
		}
	}
	e.mu.Unlock()
	e.answer(w, r, path, body)
}

func refuse(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]string{"message": message})
}

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(v)
}

func (e *Engine) answer(w http.ResponseWriter, r *http.Request, path string, body []byte) {
	if path == "/events" {
		e.events(w, r)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case path == "/_ping":
		io.WriteString(w, "OK")
	case path == "/info":
		reply(w, 200, e.info)
	case path == "/containers/json":
		e.list(w)
	case path == "/containers/create":
		e.create(w, r.URL.Query().Get("name"), body)
	case path == "/images/create":
		e.pull(w, r.URL.Query().Get("fromImage"), r.URL.Query().Get("tag"))
	case strings.HasPrefix(path, "/images/"):
		e.image(w, strings.TrimSuffix(strings.TrimPrefix(path, "/images/"), "/json"))
	case strings.HasPrefix(path, "/containers/"):
		id, verb, _ := strings.Cut(strings.TrimPrefix(path, "/containers/"), "/")
		if verb == "archive" {
			e.archive(w, r, id, body)
			return
		}
		e.one(w, r, id, verb)
	default:
		refuse(w, 404, "page not found: "+path)
	}
}

func (e *Engine) list(w http.ResponseWriter) {
	all := []container.Summary{}
	for _, c := range e.all {
		all = append(all, container.Summary{ID: c.ID, Names: []string{"/" + c.Name}, Labels: c.Config.Labels, Image: c.Config.Image})
	}
	reply(w, 200, all)
}

func (e *Engine) create(w http.ResponseWriter, name string, body []byte) {
	var q struct {
		*container.Config
		HostConfig       *container.HostConfig
		NetworkingConfig *network.NetworkingConfig
	}
	if err := json.Unmarshal(body, &q); err != nil {
		refuse(w, 400, err.Error())
		return
	}
	image, there := e.images[q.Image]
	if !there || image.Pullable {
		refuse(w, 404, "No such image: "+q.Image)
		return
	}
	if e.find(name) != nil {
		refuse(w, 409, "Conflict. The container name is already in use: "+name)
		return
	}
	merge(q.Config, image)
	e.next++
	c := &Container{ID: fmt.Sprintf("%064x", e.next), Name: name, Config: q.Config, Host: q.HostConfig}
	e.all = append(e.all, c)
	reply(w, 201, map[string]any{"Id": c.ID, "Warnings": []string{}})
}

// merge does to a request what Docker does with the image's own configuration.
func merge(c *container.Config, i Image) {
	if len(c.Entrypoint) == 0 {
		if len(c.Cmd) == 0 {
			c.Cmd = i.Cmd
		}
		c.Entrypoint = i.Entrypoint
	}
	for _, env := range i.Env {
		key, _, _ := strings.Cut(env, "=")
		if !slices.ContainsFunc(c.Env, func(s string) bool { return strings.HasPrefix(s, key+"=") }) {
			c.Env = append(c.Env, env)
		}
	}
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	for k, v := range i.Labels {
		if _, there := c.Labels[k]; !there {
			c.Labels[k] = v
		}
	}
}

func (e *Engine) pull(w http.ResponseWriter, name, tag string) {
	if tag != "" {
		name += ":" + tag
	}
	for known, image := range e.images {
		if image.Pullable && (known == name || "docker.io/"+known == name) {
			image.Pullable = false
			e.images[known] = image
			io.WriteString(w, `{"status":"Pulling"}`+"\n"+`{"status":"Downloaded"}`+"\n")
			return
		}
	}
	io.WriteString(w, `{"status":"Pulling"}`+"\n"+`{"error":"manifest unknown"}`+"\n")
}

func (e *Engine) image(w http.ResponseWriter, name string) {
	i, there := e.images[strings.TrimPrefix(name, "sha256:")]
	if !there || i.Pullable {
		refuse(w, 404, "No such image: "+name)
		return
	}
	reply(w, 200, map[string]any{"Id": "sha256:" + name, "Config": map[string]any{"Env": i.Env, "Entrypoint": i.Entrypoint, "Cmd": i.Cmd, "Labels": i.Labels}})
}

func (e *Engine) one(w http.ResponseWriter, r *http.Request, id, verb string) {
	c := e.find(id)
	if c == nil {
		refuse(w, 404, "No such container: "+id)
		return
	}
	switch {
	case r.Method == http.MethodDelete:
		e.all = slices.DeleteFunc(e.all, func(one *Container) bool { return one == c })
		e.emit("destroy", c.Name)
		w.WriteHeader(204)
	case verb == "json":
		started := "0001-01-01T00:00:00Z" // as Docker says of a container that was never started
		if c.Running || c.Starts > 0 {
			started = "2026-01-01T00:00:00Z"
		}
		reply(w, 200, map[string]any{
			"Id": c.ID, "Name": "/" + c.Name, "Image": "sha256:" + c.Config.Image, "Config": c.Config, "HostConfig": c.Host,
			"State": map[string]any{"Running": c.Running, "Restarting": c.Restarting, "StartedAt": started}, "LogPath": "/var/lib/docker/containers/" + c.ID + "/json.log",
		})
	case verb == "start", verb == "restart":
		if run := e.runs[c.Name]; run != nil {
			is := *c
			is.Running = true
			is.Starts++
			e.mu.Unlock() // it may ask what is on the host
			is.Code, is.Log = run(is)
			e.mu.Lock()
			c.Code, c.Log = is.Code, is.Log
		} else {
			c.Running, c.Restarting = true, false
		}
		c.Starts++ // who waits for its end looks at this
		if c.removedAtItsEnd() {
			e.all = slices.DeleteFunc(e.all, func(o *Container) bool { return o == c })
		}
		w.WriteHeader(204)
	case verb == "stop":
		c.Running = false
		e.emit("die", c.Name)
		w.WriteHeader(204)
	case verb == "rename":
		name := r.URL.Query().Get("name")
		if e.find(name) != nil {
			refuse(w, 409, "Conflict. The container name is already in use: "+name)
			return
		}
		c.Name = name
		w.WriteHeader(204)
	case verb == "wait":
		e.wait(w, c)
	case verb == "logs":
		w.Header().Set("Content-Type", "application/vnd.docker.multiplexed-stream")
		for _, line := range strings.SplitAfter(c.Log, "\n") {
			if line != "" {
				w.Write(append([]byte{1, 0, 0, 0, 0, 0, 0, byte(len(line))}, line...))
			}
		}
	default:
		refuse(w, 404, "page not found: "+verb)
	}
}

// events streams what happens until the client goes.
func (e *Engine) events(w http.ResponseWriter, r *http.Request) {
	ch := make(chan string, 100)
	e.mu.Lock()
	e.watch[ch] = struct{}{}
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.watch, ch)
		e.mu.Unlock()
	}()
	w.WriteHeader(200)
	flush := http.NewResponseController(w)
	flush.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-time.After(10 * time.Minute):
			return
		case line := <-ch:
			io.WriteString(w, line)
			flush.Flush()
		}
	}
}

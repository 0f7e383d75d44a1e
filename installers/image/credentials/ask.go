// Asking a credential provider plugin: a request on its standard input, credentials on its
// standard output. (Kubernetes: CredentialProviderRequest and CredentialProviderResponse of
// credentialprovider.kubelet.k8s.io.) A plugin is a foreign program: it is ended when
// it takes too long, and what it prints is bounded and never repeated.

package credentials

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/drover-project/drover/installers/image/registries"
)

const (
	pluginTimeout   = time.Minute
	pluginEnds      = 2 * time.Second // for its pipes after it was killed
	maxPluginAnswer = 1 << 20
	maxPluginWords  = 4 << 10
	maxAnswers      = 1000
)

type credentialRequest struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Image      string `json:"image"`
}

type credentialResponse struct {
	Kind          string  `json:"kind"`
	APIVersion    string  `json:"apiVersion"`
	CacheKeyType  string  `json:"cacheKeyType"`
	CacheDuration *string `json:"cacheDuration"`
	Auth          map[string]struct {
		Username string `json:"username"`
		Password string `json:"password"`
	} `json:"auth"`
}

// Answers are what plugins said, as long as they allow. The zero value is ready.
type Answers struct {
	mu sync.Mutex
	of map[answerKey]keptAnswer
}

type answerKey struct {
	plugin [sha256.Size]byte // its whole configuration
	kind   string            // Image, Registry or Global
	key    string
}

type keptAnswer struct {
	response *credentialResponse
	until    time.Time
}

// fromPlugins asks the plugins that are for the image, in order, until one has credentials.
// A plugin that fails is logged and passed over, and noted for the case that the registry
// refuses. A configuration that is wrong is an error.
func (s *Finder) fromPlugins(ctx context.Context, at name.Reference) (found *Credential, note string, err error) {
	all, err := loadPlugins(s.Plugins.Config)
	if err != nil {
		return nil, "", err
	}
	image := imageFor(at)
	for _, p := range all {
		if !slices.ContainsFunc(p.match, func(text string) bool { return matches(text, image) }) {
			continue
		}
		answer, err := s.answer(ctx, p, image)
		if ctx.Err() != nil {
			return nil, "", context.Cause(ctx)
		}
		if err != nil {
			note = fmt.Sprintf("the credential plugin %s failed: %v", p.name, err)
			s.Logger.Warn("credential plugin failed, its credentials are not used", "plugin", p.name, "image", image, "error", err)
			continue
		}
		if c := answer.credential(image); c != nil {
			c.From = "the credential plugin " + p.name
			return c, "", nil
		}
	}
	return nil, note, nil
}

// imageFor is the image as plugins are asked for it: the place that is asked and the repository,
// as the kubelet does without tag and digest.
func imageFor(at name.Reference) string {
	return registries.PublicName(at.Context().RegistryStr()) + "/" + at.Context().RepositoryStr()
}

// answer is what the plugin says, or said not long ago.
func (s *Finder) answer(ctx context.Context, p plugin, image string) (*credentialResponse, error) {
	registry, _, _ := strings.Cut(image, "/")
	id := sha256.Sum256(fmt.Appendf(nil, "%s\x00%q", s.Plugins.Dir, []any{p.name, p.apiVersion, p.args, p.env}))
	keys := map[string]answerKey{"Image": {id, "Image", image}, "Registry": {id, "Registry", registry}, "Global": {id, "Global", ""}}
	if kept := s.Answers.find(keys, s.Now()); kept != nil {
		return kept, nil
	}
	r, err := s.Plugins.ask(ctx, p, image)
	if err != nil {
		return nil, err
	}
	keep := p.keepFor
	if r.CacheDuration != nil {
		keep, _ = time.ParseDuration(*r.CacheDuration) // checked when it was read
	}
	if keep > 0 {
		s.Answers.keep(keys[r.CacheKeyType], keptAnswer{r, s.Now().Add(keep)}, s.Now())
	}
	return r, nil
}

func (a *Answers) find(keys map[string]answerKey, now time.Time) *credentialResponse {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, kind := range []string{"Image", "Registry", "Global"} {
		if kept, ok := a.of[keys[kind]]; ok && now.Before(kept.until) {
			return kept.response
		}
	}
	return nil
}

func (a *Answers) keep(key answerKey, answer keptAnswer, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[answerKey]keptAnswer{}
	}
	for k, kept := range a.of {
		if len(a.of) >= maxAnswers || !now.Before(kept.until) {
			delete(a.of, k)
		}
	}
	a.of[key] = answer
}

// ask runs the plugin.
func (o Plugins) ask(ctx context.Context, p plugin, image string) (*credentialResponse, error) {
	program := filepath.Join(o.Dir, p.name)
	if err := ownFile(program); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no program %s", program)
	} else if err != nil {
		return nil, err
	}
	request, err := json.Marshal(credentialRequest{"CredentialProviderRequest", p.apiVersion, image})
	if err != nil {
		return nil, err
	}
	timeout := cmp.Or(max(o.Timeout, 0), pluginTimeout)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := exec.CommandContext(ctx, program, p.args...)
	c.Env = append(slices.Clone(o.Env), p.env...)
	c.Stdin = bytes.NewReader(request)
	out, words := &limited{most: maxPluginAnswer}, &limited{most: maxPluginWords, quiet: true}
	c.Stdout, c.Stderr = out, words
	endWhole(c)
	c.WaitDelay = pluginEnds
	err = c.Run()
	switch {
	case out.full:
		return nil, fmt.Errorf("it printed more than %d bytes", maxPluginAnswer)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("it did not answer within %v and was killed", timeout)
	case err != nil:
		return nil, failure(err, words.b.String(), p.env)
	}
	return parseAnswer(out.b.Bytes(), p.apiVersion)
}

// failure is how a plugin ended, with the last line that it said, but for what its
// configuration passed to it.
func failure(err error, words string, env []string) error {
	lines := strings.Split(strings.TrimSpace(words), "\n")
	var secrets []string
	for _, entry := range env {
		_, value, _ := strings.Cut(entry, "=")
		secrets = append(secrets, value)
	}
	if last := Redact(lines[len(lines)-1], secrets); last != "" {
		return fmt.Errorf("%w, saying %q", err, last)
	}
	return err
}

// limited takes so many bytes. More are a fault, or with quiet dropped.
type limited struct {
	b     bytes.Buffer
	most  int
	quiet bool
	full  bool
}

// Write is of io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	fits := min(len(p), l.most-l.b.Len())
	l.b.Write(p[:fits])
	if fits == len(p) || l.quiet {
		return len(p), nil
	}
	l.full = true
	return fits, errors.New("too much")
}

// parseAnswer reads what a plugin printed. Errors repeat nothing of it.
func parseAnswer(b []byte, apiVersion string) (*credentialResponse, error) {
	var r credentialResponse
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, errors.New("it did not print the JSON of a CredentialProviderResponse")
	}
	switch {
	case r.Kind != "CredentialProviderResponse":
		return nil, errors.New("kind of what it printed is not CredentialProviderResponse")
	case r.APIVersion != apiVersion:
		return nil, fmt.Errorf("apiVersion of what it printed is not %s, which its configuration says", apiVersion)
	case r.CacheKeyType != "Image" && r.CacheKeyType != "Registry" && r.CacheKeyType != "Global":
		return nil, errors.New("cacheKeyType of what it printed is none of Image, Registry and Global")
	}
	if r.CacheDuration != nil {
		if d, err := time.ParseDuration(*r.CacheDuration); err != nil || d < 0 {
			return nil, errors.New("cacheDuration of what it printed is not a duration such as 12h")
		}
	}
	for key := range r.Auth {
		if _, err := parsePattern(key); err != nil {
			return nil, errors.New("auth of what it printed has a key that is neither an image nor a pattern of images")
		}
	}
	return &r, nil
}

// credential is the answer's for an image, of several the most particular; nil for none.
func (r *credentialResponse) credential(image string) *Credential {
	var keys []string
	for key := range r.Auth {
		if matches(key, image) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	slices.Sort(keys) // the kubelet takes the last in this order, too
	a := r.Auth[keys[len(keys)-1]]
	if a.Username == "" && a.Password == "" {
		return nil
	}
	return &Credential{AuthConfig: authn.AuthConfig{Username: a.Username, Password: a.Password}}
}

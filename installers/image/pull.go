// Pulling an image from the first place that has it.

package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/drover-project/drover/installers/image/manifest"
	"github.com/drover-project/drover/installers/image/registries"
	"github.com/drover-project/drover/plans/backoff"
)

const (
	userAgent = "rancher-system-agent/drover"
	// rounds is how often the places are asked that may only be unwell.
	rounds = 3
)

// user takes an image that is read below ctx.
type user func(ctx context.Context, found *manifest.Image) error

// place is an endpoint that is asked, and what came of it.
type place struct {
	registries.Endpoint
	config registries.Config
	spared *backoff.Spared // its request to be left alone, from one pull to the next
	failed *placeError     // of the last try
	tries  int
}

// pull asks the endpoints in order and hands the image of the first that has it to use, and
// returns which that was. A source that breaks off is tried from the next, so use may be called
// again. Sources that may only be unwell are asked again after all others, with a pause.
func (s *Stager) pull(ctx context.Context, ref name.Reference, report *progress, use user) (from string, err error) {
	config, err := registries.Load(s.Registries)
	if err != nil {
		return "", err
	}
	var places []*place
	for _, e := range config.Endpoints(ref.Context().RegistryStr()) {
		spared, _ := s.spared.LoadOrStore(e.Host, new(backoff.Spared))
		places = append(places, &place{Endpoint: e, config: config.Config(e.Host), spared: spared.(*backoff.Spared)})
	}
	pause := backoff.Backoff{Min: orDefault(s.Pause, defaultPause), Max: time.Minute, Floor: 0.5}
	asked := places
	for round := 1; ; round++ {
		var again []*place
		for _, p := range asked {
			err := s.try(ctx, p, ref, report, use)
			var fault *unpackError
			switch {
			case err == nil:
				return p.String(), nil
			case ctx.Err() != nil:
				return "", context.Cause(ctx)
			case errors.As(err, &fault):
				return "", fault // the image or this host is to blame, not the place it came from
			case p.failed.passing:
				again = append(again, p)
			}
		}
		if len(again) == 0 || round == rounds {
			return "", nowhere(places)
		}
		first := slices.MinFunc(again, func(a, b *place) int { return cmp.Compare(a.spared.Left(s.now()), b.spared.Left(s.now())) })
		wait := max(pause.Next(), first.spared.Left(s.now()))
		report.say("%v; asking again in %v", again[0].failed, wait.Round(100*time.Millisecond))
		if err := backoff.Wait(ctx, wait); err != nil {
			return "", context.Cause(ctx)
		}
		asked = again
	}
}

// try asks one place, and notes there what came of it.
func (s *Stager) try(ctx context.Context, p *place, ref name.Reference, report *progress, use user) error {
	report.say("asking %s", p)
	p.tries++
	var secrets []string
	err := s.pullFrom(ctx, p, ref, &secrets, use)
	if err == nil {
		return nil
	}
	p.failed = said(p, err, secrets)
	var fault *unpackError
	if errors.As(err, &fault) {
		return fault
	}
	s.log().Warn("image cannot be pulled from one place", "image", ref.String(), "place", p.String(), "try", p.tries, "error", p.failed)
	return p.failed
}

// nowhere is the sentence about an image that no place gave.
func nowhere(places []*place) error {
	var all []string
	var causes []error
	for _, p := range places {
		text := "pull from " + p.failed.Error()
		if p.tries > 1 {
			text += fmt.Sprintf(" (asked %d times)", p.tries)
		}
		all = append(all, text)
		causes = append(causes, p.failed)
	}
	return &nowhereError{text: strings.Join(all, "; "), causes: causes}
}

type nowhereError struct {
	text   string
	causes []error
}

// Error has a sentence for each place.
func (e *nowhereError) Error() string { return e.text }

// Unwrap has an error for each place.
func (e *nowhereError) Unwrap() []error { return e.causes }

// pullFrom adds to secrets what must be in no error that it returns.
func (s *Stager) pullFrom(ctx context.Context, p *place, ref name.Reference, secrets *[]string, use user) error {
	at, err := reference(p.Endpoint, ref)
	if err != nil {
		return err
	}
	made, err := connect(p.config.TLS, orDefault(s.Stall, defaultStall), s.now)
	if err != nil {
		return err
	}
	defer made.CloseIdleConnections()
	found, err := s.credentials().Find(ctx, at, p.config.Auth)
	if err != nil {
		return err
	}
	*secrets = found.Secrets()
	puller, err := remote.NewPuller(remote.WithAuth(found.Authenticator()), remote.WithUserAgent(userAgent),
		remote.WithTransport(&policy{endpoint: p.Endpoint, next: backoff.Sparing{Spared: p.spared, Next: made, Now: s.now}}), remote.WithContext(ctx),
		// Trying again is done here, where it is reported and can be ended.
		remote.WithRetryPredicate(func(error) bool { return false }), remote.WithRetryStatusCodes())
	if err != nil {
		return err
	}
	image, err := describe(ctx, puller, at)
	if err != nil {
		return found.Explain(err)
	}
	image.From, image.Keep = p.String(), true
	return use(ctx, image)
}

// describe reads the manifest of an image, and of an index the one for this host.
func describe(ctx context.Context, puller *remote.Puller, at name.Reference) (*manifest.Image, error) {
	top, err := puller.Get(ctx, at)
	if err != nil {
		return nil, err
	}
	repository := at.Context()
	m, err := manifest.ThisHost().Manifest(ctx, top.Manifest, func(ctx context.Context, digest v1.Hash) ([]byte, error) {
		d, err := puller.Get(ctx, repository.Digest(digest.String()))
		if err != nil {
			return nil, err
		}
		return d.Manifest, nil
	})
	if err != nil {
		return nil, err
	}
	found := &manifest.Image{}
	for _, d := range m.Layers {
		if err := manifest.Check(d); err != nil {
			return nil, err
		}
		found.Layers = append(found.Layers, manifest.Layer{Digest: d.Digest, Size: d.Size, Open: func(ctx context.Context) (io.ReadCloser, error) {
			layer, err := puller.Layer(ctx, repository.Digest(d.Digest.String()))
			if err != nil {
				return nil, err
			}
			return layer.Compressed()
		}})
	}
	return found, nil
}

// reference is the image's name at the endpoint.
func reference(e registries.Endpoint, ref name.Reference) (name.Reference, error) {
	options := []name.Option{name.StrictValidation}
	if e.PlainHTTP {
		options = append(options, name.Insecure)
	}
	repository := e.Rewrites.Apply(ref.Context().RepositoryStr())
	at, err := name.NewRepository(e.Host+"/"+repository, options...)
	if err != nil {
		return nil, fmt.Errorf("the rewrites in registries.yaml make %.200q of the repository, which is not the name of a repository", repository)
	}
	if digest, ok := ref.(name.Digest); ok {
		return at.Digest(digest.DigestStr()), nil
	}
	return at.Tag(ref.Identifier()), nil
}

// policy sends requests where the endpoint says, and none without TLS unless it says so:
// the library would fall back to plain HTTP for any private address.
type policy struct {
	endpoint registries.Endpoint
	next     http.RoundTripper
}

// RoundTrip is of http.RoundTripper.
func (p *policy) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !p.endpoint.PlainHTTP {
		return nil, fmt.Errorf("%s would be asked without TLS; write http:// before the endpoint in registries.yaml if that is wanted", r.URL.Host)
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/v2")
	if r.URL.Host != p.endpoint.Host || !ok {
		return p.next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.URL.Path = p.endpoint.Path + rest
	if p.endpoint.MirrorOf != "" {
		// A mirror of several registries cannot distinguish them otherwise.
		query := r.URL.Query()
		query.Set("ns", p.endpoint.MirrorOf)
		r.URL.RawQuery = query.Encode()
	}
	answer, err := p.next.RoundTrip(r)
	if err == nil && !strings.Contains(rest, "/blobs/") {
		// The library reads the answer to its first question to the end, however long that is.
		answer.Body = http.MaxBytesReader(nil, answer.Body, manifest.MaxSize)
	}
	return answer, err
}

package realk3s

// Released images: where a machine reaches them, nothing has to be built.

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// reachTimeout is how long a registry may take to answer before the machine counts as one without it.
const reachTimeout = 10 * time.Second

// Released asks the registry that ref names for the image, and returns why hosts cannot pull it from there, or nil.
// A nil transport is the default one.
func Released(ctx context.Context, ref string, transport http.RoundTripper) error {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	options := []remote.Option{remote.WithContext(ctx), remote.WithRetryBackoff(remote.Backoff{Steps: 1})}
	if transport != nil {
		options = append(options, remote.WithTransport(transport))
	}
	if _, err := remote.Head(parsed, options...); err != nil {
		return fmt.Errorf("%s cannot be pulled: %w", parsed.Name(), err)
	}
	return nil
}

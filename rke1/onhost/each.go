package onhost

import (
	"context"
	"errors"
	"sync"
)

// Each does something on hosts, at most so many at a time, and waits for all. What fails on one host does not stop the others.
func Each[H any](ctx context.Context, hosts []H, limit int, do func(context.Context, H) error) error {
	errs := make([]error, len(hosts))
	room := make(chan struct{}, max(limit, 1))
	var all sync.WaitGroup
	for i, h := range hosts {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			errs[i] = context.Cause(ctx)
			continue
		}
		all.Go(func() {
			defer func() { <-room }()
			errs[i] = do(ctx, h)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Whose probes and periodic instructions are asked for: the methods that take a plan do
// not take the delivery it came with.

package apply

import "context"

type askerKey struct{}

type asker struct{ source, checksum string }

// WithSource says in a context whose plan Probes and Periodic are called for, and the
// checksum of it; empty when it is not known.
func WithSource(ctx context.Context, source, checksum string) context.Context {
	return context.WithValue(ctx, askerKey{}, asker{source, checksum})
}

// SourceOf is the source that WithSource said; empty when nobody did.
func SourceOf(ctx context.Context) string { return askerOf(ctx).source }

func askerOf(ctx context.Context) asker {
	a, _ := ctx.Value(askerKey{}).(asker)
	return a
}

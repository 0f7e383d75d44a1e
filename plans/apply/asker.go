// Whose probes and periodic instructions are asked for: the methods that take a plan do
// not take the delivery it came with.

package apply

import "context"

type sourceKey struct{}

// WithSource says in a context whose plan Probes and Periodic are called for.
func WithSource(ctx context.Context, source string) context.Context {
	return context.WithValue(ctx, sourceKey{}, source)
}

// SourceOf is what WithSource said; empty when nobody did.
func SourceOf(ctx context.Context) string {
	source, _ := ctx.Value(sourceKey{}).(string)
	return source
}

// Telling why a probe failed: its status only counts.

package probe

import "context"

type listenerKey struct{}

// Listen has each question below the context told as it is answered, with nil for a
// success; several goroutines may do so at once.
func Listen(ctx context.Context, told func(name string, err error)) context.Context {
	return context.WithValue(ctx, listenerKey{}, told)
}

func tell(ctx context.Context, name string, err error) {
	if told, ok := ctx.Value(listenerKey{}).(func(string, error)); ok {
		told(name, err)
	}
}

type aboutKey struct{}

// About puts attributes into a context that everything logged of its probes has, for example
// whose they are. Without it there are none.
func About(ctx context.Context, attributes ...any) context.Context {
	return context.WithValue(ctx, aboutKey{}, attributes)
}

func aboutOf(ctx context.Context) []any {
	attributes, _ := ctx.Value(aboutKey{}).([]any)
	return attributes
}

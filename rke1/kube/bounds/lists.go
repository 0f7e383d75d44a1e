// Lists, page by page, so that what a cluster answers at once is bounded however many objects it has.

package bounds

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/tunnel/answers"
)

const (
	// Page is how many objects a page has.
	Page = 250
	// Secrets is how many Secrets a page has, each of which may be as large as a cluster takes an object.
	Secrets = 16
	// Kept bounds all pages of a list, in bytes of the answers: twenty thousand objects of an ordinary size.
	Kept = 32 << 20
	// Nodes bounds all pages of a list of nodes, which have more in them than other objects, and of which little is kept.
	Nodes = 256 << 20
)

// Each asks for a list page by page and calls do with each of its objects. A page has Page objects, unless options say how many.
// All pages together have at most so many bytes; the error is an answers.TooLargeError where they have more. What do returns
// ends it. The version is that of the list.
func Each[L interface {
	runtime.Object
	metav1.ListInterface
}, P any](ctx context.Context, bytes int64, options metav1.ListOptions, ask func(context.Context, metav1.ListOptions) (L, error), do func(P) error) (version string, err error) {
	options.Limit = cmp.Or(options.Limit, Page)
	ctx = answers.Together(ctx, "a whole list", bytes)
	for {
		list, err := one(ctx, options, ask, do)
		if err != nil {
			return "", err
		}
		version = cmp.Or(version, list.GetResourceVersion())
		next := list.GetContinue()
		if next == "" {
			return version, nil
		}
		if next == options.Continue {
			return "", fmt.Errorf("the page after %.40q is itself", next)
		}
		options.Continue, options.ResourceVersion, options.ResourceVersionMatch = next, "", ""
	}
}

// All are the objects of a list, of at most Kept bytes. The errors are those of ask, and that of Each for a longer list.
func All[P any, L interface {
	runtime.Object
	metav1.ListInterface
}](ctx context.Context, options metav1.ListOptions, ask func(context.Context, metav1.ListOptions) (L, error)) (all []P, err error) {
	_, err = Each(ctx, Kept, options, ask, func(object P) error {
		all = append(all, object)
		return nil
	})
	return all, err
}

// one asks for one page. Its context ends with it, which tells that it was decoded.
func one[L interface {
	runtime.Object
	metav1.ListInterface
}, P any](ctx context.Context, options metav1.ListOptions, ask func(context.Context, metav1.ListOptions) (L, error), do func(P) error) (list L, err error) {
	asked, cancel := context.WithCancel(ctx)
	defer cancel()
	if list, err = ask(asked, options); err != nil {
		return list, err
	}
	cancel()
	return list, meta.EachListItem(list, func(o runtime.Object) error {
		object, ok := o.(P)
		if !ok {
			return fmt.Errorf("a %T is in the list", o)
		}
		return do(object)
	})
}

// Lists, page by page.

package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/drover-project/drover/apitypes"
)

// page is how many things are asked for at a time.
const page = "1000"

// with is a path with more parameters.
func with(path string, query url.Values) string {
	switch {
	case len(query) == 0:
		return path
	case strings.Contains(path, "?"):
		return path + "&" + query.Encode()
	}
	return path + "?" + query.Encode()
}

// Each are the things of a list, such as /v1-drover/machines?cluster=c-m-4xk2vbcd, asked for page by page as they are read. It ends
// with the first error.
func Each[T any](ctx context.Context, c *Client, path string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query := url.Values{"limit": {page}}
		for {
			var list apitypes.List[T]
			if err := c.Do(ctx, http.MethodGet, with(path, query), "", nil, &list); err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, one := range list.Data {
				if !yield(one, nil) {
					return
				}
			}
			if list.Continue == "" {
				return
			}
			if list.Continue == query.Get("continue") {
				var none T
				yield(none, fmt.Errorf("read the list %s: the server answers each page with the same next one", path))
				return
			}
			query.Set("continue", list.Continue)
		}
	}
}

// maxThings bounds what List keeps; Each reads longer lists.
const maxThings = 1_000_000

// List are all things of a list, never nil. Its errors are those of Client.Get; a list that grows without end is refused.
func List[T any](ctx context.Context, c *Client, path string) ([]T, error) {
	all := []T{}
	for one, err := range Each[T](ctx, c, path) {
		if err != nil {
			return nil, err
		}
		if len(all) == maxThings {
			return nil, fmt.Errorf("read the list %s: it has more than %d things", path, maxThings)
		}
		all = append(all, one)
	}
	return all, nil
}

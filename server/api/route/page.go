// Pages of lists, in drover's own API.

package route

import (
	"net/http"
	"strconv"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/api/norman"
)

// Bounds of a page.
const (
	defaultPage = 1000
	maxPage     = 5000
)

// Page answers with the part of a list that the query asks for: limit is how many, continue the key where it begins, as the page before gave it. The
// list is in the order of its keys. The error is a *norman.Error of 422.
func Page[T, V any](c *Call, all []T, key func(T) string, show func(T) V) (Answer, error) {
	limit := defaultPage
	if given := c.Query().Get("limit"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > maxPage {
			return Answer{}, norman.Invalid(norman.InvalidOption, "limit", "%.40q is not a number from 1 to %d", given, maxPage)
		}
		limit = n
	}
	answer := apitypes.List[V]{Data: []V{}, Total: len(all)}
	if from := c.Query().Get("continue"); from != "" {
		for len(all) > 0 && key(all[0]) < from {
			all = all[1:]
		}
	}
	if len(all) > limit {
		answer.Continue = key(all[limit])
		all = all[:limit]
	}
	for _, one := range all {
		answer.Data = append(answer.Data, show(one))
	}
	return Answer{Status: http.StatusOK, Body: answer}, nil
}

// Since is the time that the query's since, a duration, is before now; zero without it. The error is a *norman.Error of 422.
func Since(c *Call, now time.Time) (time.Time, error) {
	given := c.Query().Get("since")
	if given == "" {
		return time.Time{}, nil
	}
	since, err := time.ParseDuration(given)
	if err != nil || since < 0 {
		return time.Time{}, norman.Invalid(norman.InvalidFormat, "since", "%.40q is not a duration, as in 90m or 1h", given)
	}
	return now.Add(-since), nil
}

package store

import (
	"errors"
	"fmt"
	"testing"
)

// What another write got in the way of is done again a few times, and other errors are returned at once.
func TestRetry(t *testing.T) {
	conflict, exists, gone, other := fmt.Errorf("write: %w", &ConflictError{Key: "a"}), &ExistsError{Key: "a"}, &NotFoundError{Key: "a"}, errors.New("the disk is full")
	for name, tc := range map[string]struct {
		retry func(func() error) error
		fails []error // of the first tries; those after them succeed
		tries int
		want  error
	}{
		"at once":                {retry: Retry, tries: 1},
		"after a conflict":       {retry: Retry, fails: []error{conflict}, tries: 2},
		"conflicts for ever":     {retry: Retry, fails: []error{conflict, conflict, conflict, conflict, conflict, conflict}, tries: 5, want: conflict},
		"another error":          {retry: Retry, fails: []error{conflict, other}, tries: 2, want: other},
		"it came meanwhile":      {retry: Retry, fails: []error{exists}, tries: 1, want: exists},
		"new: it came meanwhile": {retry: RetryNew, fails: []error{exists, conflict}, tries: 3},
		"new: it comes for ever": {retry: RetryNew, fails: []error{exists, exists, exists, exists, exists, exists}, tries: 5, want: exists},
		"new: it is not there":   {retry: RetryNew, fails: []error{gone}, tries: 1, want: gone},
		"new: another error":     {retry: RetryNew, fails: []error{other}, tries: 1, want: other},
	} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			err := tc.retry(func() error {
				tries++
				if tries <= len(tc.fails) {
					return tc.fails[tries-1]
				}
				return nil
			})
			if tries != tc.tries || !errors.Is(err, tc.want) {
				t.Errorf("%d tries and %v, want %d and %v", tries, err, tc.tries, tc.want)
			}
		})
	}
}

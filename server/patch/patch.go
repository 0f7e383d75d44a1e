// Package patch applies the patches that clients of Kubernetes' APIs send: merge patches and JSON
// patches, bounded in what they may make of an object.
//
// Wire source: RFC 6902, RFC 7386, k8s.io/apiserver pkg/endpoints/handlers/patch.go.
package patch

import (
	"errors"
	"fmt"
	"mime"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// Content types of patches. Apply and Strategic are not applied here: they need to know the object.
const (
	Merge     = "application/merge-patch+json"
	JSON      = "application/json-patch+json"
	Strategic = "application/strategic-merge-patch+json"
	Apply     = "application/apply-patch+yaml"
)

// maxOperations bounds a JSON patch, as Kubernetes does.
const maxOperations = 10_000

// Func makes the patched JSON of an object's JSON.
type Func func(original []byte) ([]byte, error)

// Errors of patches. Their texts say what is wrong.
var (
	// ErrType is a content type that is none of Merge and JSON.
	ErrType = errors.New("a patch has the content type " + Merge + " or " + JSON)
	// ErrSize is a patch with too many operations.
	ErrSize = errors.New("the JSON patch is too large")
	// ErrTest is an operation "test" that failed.
	ErrTest = errors.New("a test of the JSON patch failed")
)

// Type is the content type of a patch without its parameters.
func Type(header string) string {
	kind, _, err := mime.ParseMediaType(header)
	if err != nil {
		return header
	}
	return kind
}

// Read reads a patch of the content type. The result of its Func has at most limit bytes more than its parts. All
// errors but those above are about a patch that cannot be read or applied.
func Read(contentType string, patch []byte, limit int64) (Func, error) {
	switch contentType {
	case Merge:
		return func(original []byte) ([]byte, error) {
			patched, err := jsonpatch.MergePatch(original, patch)
			return wrap(patched, err)
		}, nil
	case JSON:
		return readJSON(patch, limit)
	}
	return nil, ErrType
}

func readJSON(patch []byte, limit int64) (Func, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, fmt.Errorf("the JSON patch cannot be read: %w", err)
	}
	if len(operations) > maxOperations {
		return nil, fmt.Errorf("%w: it has %d operations, more than the %d allowed", ErrSize, len(operations), maxOperations)
	}
	options := jsonpatch.NewApplyOptions()
	// A few "copy" operations could double a value until memory is gone.
	options.AccumulatedCopySizeLimit = limit
	return func(original []byte) ([]byte, error) {
		patched, err := operations.ApplyWithOptions(original, options)
		return wrap(patched, err)
	}, nil
}

func wrap(patched []byte, err error) ([]byte, error) {
	switch {
	case errors.Is(err, jsonpatch.ErrTestFailed):
		return nil, fmt.Errorf("%w: %w", ErrTest, err)
	case err != nil:
		return nil, fmt.Errorf("the patch cannot be applied: %w", err)
	}
	return patched, nil
}

// The three kinds of patches that kubectl sends.

package planapi

import (
	"errors"
	"mime"
	"net/http"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Content types of patches.
const (
	typeMerge     = "application/merge-patch+json"
	typeStrategic = "application/strategic-merge-patch+json"
	typeJSON      = "application/json-patch+json"
	typeApply     = "application/apply-patch+yaml"
)

// maxOperations bounds a JSON patch, as Kubernetes does.
const maxOperations = 10_000

// patchFunc makes the patched JSON of a Secret's JSON.
type patchFunc func(original []byte) ([]byte, error)

// readPatch reads a patch by its content type. The errors of both are failures.
func readPatch(contentType string, patch []byte) (patchFunc, error) {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind = contentType
	}
	switch kind {
	case typeMerge:
		return wrap(func(original []byte) ([]byte, error) { return jsonpatch.MergePatch(original, patch) }), nil
	case typeStrategic:
		return wrap(func(original []byte) ([]byte, error) {
			return strategicpatch.StrategicMergePatch(original, patch, corev1.Secret{})
		}), nil
	case typeJSON:
		return readJSONPatch(patch)
	case typeApply:
		return nil, unsupportedType("server-side apply is not possible here; use kubectl edit or kubectl patch")
	}
	return nil, unsupportedType("a patch has the content type " + typeStrategic + ", " + typeMerge + " or " + typeJSON)
}

func readJSONPatch(patch []byte) (patchFunc, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, badRequest("the JSON patch cannot be read: %v", err)
	}
	if len(operations) > maxOperations {
		return nil, fail(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, "the JSON patch has %d operations, more than the %d allowed", len(operations), maxOperations)
	}
	options := jsonpatch.NewApplyOptions()
	// A few "copy" operations could double a value until memory is gone.
	options.AccumulatedCopySizeLimit = maxBody
	return wrap(func(original []byte) ([]byte, error) { return operations.ApplyWithOptions(original, options) }), nil
}

// wrap turns what a patch library refuses into an answer: a failed "test" operation is
// not the same as a patch that nobody could apply.
func wrap(apply patchFunc) patchFunc {
	return func(original []byte) ([]byte, error) {
		patched, err := apply(original)
		switch {
		case errors.Is(err, jsonpatch.ErrTestFailed):
			return nil, fail(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "the server rejected our request due to an error in our request: %v", err)
		case err != nil:
			return nil, badRequest("the patch cannot be applied: %v", err)
		}
		return patched, nil
	}
}

func unsupportedType(sentence string) *failure {
	return fail(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "%s", sentence)
}

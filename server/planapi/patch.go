// The three kinds of patches that kubectl sends.

package planapi

import (
	"errors"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/drover-project/drover/server/patch"
)

// readPatch reads a patch by its content type. The errors of both are failures.
func readPatch(contentType string, text []byte) (patch.Func, error) {
	switch kind := patch.Type(contentType); kind {
	case patch.Strategic:
		return func(original []byte) ([]byte, error) {
			patched, err := strategicpatch.StrategicMergePatch(original, text, corev1.Secret{})
			if err != nil {
				return nil, badRequest("the patch cannot be applied: %v", err)
			}
			return patched, nil
		}, nil
	case patch.Merge, patch.JSON:
		apply, err := patch.Read(kind, text, maxBody)
		if err != nil {
			return nil, patchFailure(err)
		}
		return func(original []byte) ([]byte, error) {
			patched, err := apply(original)
			if err != nil {
				return nil, patchFailure(err)
			}
			return patched, nil
		}, nil
	case patch.Apply:
		return nil, unsupportedType("server-side apply is not possible here; use kubectl edit or kubectl patch")
	}
	return nil, unsupportedType("a patch has the content type " + patch.Strategic + ", " + patch.Merge + " or " + patch.JSON)
}

// patchFailure turns what is wrong with a patch into an answer: a failed "test" operation is
// not the same as a patch that nobody could apply.
func patchFailure(err error) *failure {
	switch {
	case errors.Is(err, patch.ErrTest):
		return fail(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "the server rejected our request due to an error in our request: %v", err)
	case errors.Is(err, patch.ErrSize):
		return fail(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, "%v", err)
	}
	return badRequest("%v", err)
}

func unsupportedType(sentence string) *failure {
	return fail(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "%s", sentence)
}

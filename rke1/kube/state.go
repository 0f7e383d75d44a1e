// The state of the cluster, as the cluster itself keeps it for the day when nothing else does.

package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/drover-project/drover/tunnel/answers"
)

// stateName names the Secret, its key, and the ConfigMap of older versions of the RKE CLI.
const stateName = "full-cluster-state"

// ErrNoState is that the cluster keeps no state.
var ErrNoState = errors.New("the cluster keeps no state: there is neither a Secret nor a ConfigMap " + System + "/" + stateName)

// untilWritten is how an API is asked again that does not answer yet, or whose etcd elects a leader.
var untilWritten = wait.Backoff{Duration: time.Second, Factor: 1.5, Steps: 8}

// SaveState writes the state, compact JSON, into its Secret, and removes the ConfigMap in which
// everybody who may read ConfigMaps could read all keys (CVE-2023-32191). The error is that of the API, after some tries.
func (a *API) SaveState(ctx context.Context, text []byte) error {
	err := retryWhileBusy(ctx, func() error { return a.writeState(ctx, text) })
	if err == nil {
		err = retryWhileBusy(ctx, func() error {
			err := a.Client.CoreV1().ConfigMaps(System).Delete(ctx, stateName, metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("save the state in Secret %s/%s: %w", System, stateName, err)
	}
	return nil
}

func (a *API) writeState(ctx context.Context, text []byte) error {
	secrets := a.Client.CoreV1().Secrets(System)
	data := map[string][]byte{stateName: text}
	is, err := secrets.Get(ctx, stateName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: stateName, Namespace: System}, Data: data}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	is.Data = data
	_, err = secrets.Update(ctx, is, metav1.UpdateOptions{})
	return err
}

// ReadState reads the state from the Secret, or from the ConfigMap where an older CLI left
// it. The error is ErrNoState when there is neither.
func (a *API) ReadState(ctx context.Context) (text []byte, err error) {
	err = retryWhileBusy(ctx, func() error {
		secret, err := a.Client.CoreV1().Secrets(System).Get(ctx, stateName, metav1.GetOptions{})
		if err == nil && len(secret.Data[stateName]) > 0 {
			text = secret.Data[stateName]
			return nil
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		old, err := a.Client.CoreV1().ConfigMaps(System).Get(ctx, stateName, metav1.GetOptions{})
		if err == nil {
			text = []byte(old.Data[stateName])
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the state of the cluster: %w", err)
	case len(text) == 0:
		return nil, ErrNoState
	}
	return text, nil
}

// retryWhileBusy tries what an API may refuse for a moment, and stops at what will not change.
func retryWhileBusy(ctx context.Context, f func() error) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, untilWritten, func(context.Context) (bool, error) {
		last = f()
		if last != nil && final(last) {
			return false, last
		}
		return last == nil, nil
	})
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return last
}

// final says that an answer stays the same when it is asked for again.
func final(err error) bool {
	_, large := errors.AsType[*answers.TooLargeError](err)
	return large || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		apierrors.IsResourceExpired(err)
}

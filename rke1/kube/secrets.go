// Secrets are encrypted with the first key of the API server's list when they are written;
// writing each of them again is what moves all of them to a new key.

package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/rke1/kube/bounds"
)

// secretsAtOnce is how many Secrets a page has.
const secretsAtOnce = bounds.Secrets

// RewriteSecrets writes every Secret again and returns how many. It can be interrupted and
// begun again. A Secret that goes or is written by another client meanwhile is as good as rewritten.
func (a *API) RewriteSecrets(ctx context.Context) (rewritten int, err error) {
	next := ""
	for {
		var page *corev1.SecretList
		err := retryWhileBusy(ctx, func() (err error) {
			page, err = a.Client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{Limit: secretsAtOnce, Continue: next})
			return err
		})
		if apierrors.IsResourceExpired(err) {
			next = "" // the pages took longer than the API keeps their revision: from the beginning
			continue
		}
		if err != nil {
			return rewritten, fmt.Errorf("list the cluster's secrets: %w", err)
		}
		for _, s := range page.Items {
			err := retryWhileBusy(ctx, func() error {
				_, err := a.Client.CoreV1().Secrets(s.Namespace).Update(ctx, &s, metav1.UpdateOptions{})
				if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
					return nil
				}
				return err
			})
			if err != nil {
				return rewritten, fmt.Errorf("write secret %s/%s again: %w", s.Namespace, s.Name, err)
			}
			rewritten++
		}
		if next = page.Continue; next == "" {
			return rewritten, nil
		}
	}
}

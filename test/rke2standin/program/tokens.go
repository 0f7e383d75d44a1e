//go:build ignore

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/k3s-io/k3s/pkg/util"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
)

// tokenReviewer asks the API server who a token belongs to: bootstrap tokens of joining nodes are records of the cluster.
type tokenReviewer struct{ client kubernetes.Interface }

func newTokenReviewer(kubeconfig string) (authenticator.Request, error) {
	client, err := util.GetClientSet(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("make a client to review tokens: %w", err)
	}
	return bearertoken.New(tokenReviewer{client}), nil
}

func (t tokenReviewer) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	answer, err := t.client.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return nil, false, fmt.Errorf("review a token: %w", err)
	}
	if answer.Status.Error != "" {
		return nil, false, errors.New(answer.Status.Error)
	}
	who := &user.DefaultInfo{Name: answer.Status.User.Username, UID: answer.Status.User.UID, Groups: answer.Status.User.Groups}
	return &authenticator.Response{User: who}, answer.Status.Authenticated, nil
}

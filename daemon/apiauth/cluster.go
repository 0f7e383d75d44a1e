// What is asked of the cluster's API, by the pod's own service account.

package apiauth

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/plans/clusterauth"
)

const (
	// mounted is where a pod finds its account.
	mounted = "/var/run/secrets/kubernetes.io/serviceaccount"
	// maxObject bounds one object.
	maxObject = 1 << 20
)

// Cluster is the API of the cluster that the pod runs in.
type Cluster struct {
	// URL has no path.
	URL    string
	Client *http.Client
	// Token is the account's token as it is now; it is renewed while the pod runs.
	Token func() (string, error)
}

// clientOf is a client of an API whose certificate the pool verifies. The account's token goes to that API alone.
func clientOf(pool *x509.CertPool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 5 * time.Second, IdleConnTimeout: 90 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// InCluster is the API by what Kubernetes gives every pod. The error names the variable or file that is missing.
func InCluster(getenv func(string) string) (*Cluster, error) {
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: kube-api-auth runs in a pod of the cluster whose tokens it reviews")
	}
	ca, err := os.ReadFile(filepath.Join(mounted, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the CA of the cluster: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s/ca.crt has no certificate", mounted)
	}
	return &Cluster{
		URL:    "https://" + net.JoinHostPort(host, port),
		Client: clientOf(pool),
		Token: func() (string, error) {
			b, err := os.ReadFile(filepath.Join(mounted, "token"))
			return strings.TrimSpace(string(b)), err
		},
	}, nil
}

// known is what the cluster has of a token. What it does not have, for want of the types of the
// objects even, is nil; the error says that it could not be asked.
func (c *Cluster) known(ctx context.Context, of credential) (known, error) {
	var k known
	var token clusterauth.Token
	if ok, err := c.get(ctx, clusterauth.Path(clusterauth.Tokens, of.name), &token); !ok {
		return k, err
	}
	k.token = &token
	if !token.Enabled || !tokenName().MatchString(token.UserName) {
		return k, nil // nothing else matters
	}
	var user clusterauth.User
	ok, err := c.get(ctx, clusterauth.Path(clusterauth.Users, token.UserName), &user)
	if !ok {
		return k, err
	}
	k.user = &user
	var secret struct {
		Data map[string][]byte `json:"data"`
	}
	if _, err = c.get(ctx, "/api/v1/namespaces/"+clusterauth.Namespace+"/secrets/"+url.PathEscape(of.name), &secret); err != nil {
		return k, err
	}
	k.hash = string(secret.Data[clusterauth.HashKey])
	return k, nil
}

// debounce is how old groups may grow; false when it is not set.
func (c *Cluster) debounce(ctx context.Context) (time.Duration, bool, error) {
	var m struct {
		Data map[string]string `json:"data"`
	}
	if ok, err := c.get(ctx, "/api/v1/namespaces/"+clusterauth.Namespace+"/configmaps/"+clusterauth.Debounce, &m); !ok {
		return 0, false, err
	}
	seconds, err := strconv.ParseUint(m.Data[clusterauth.DebounceKey], 10, 31)
	return time.Duration(seconds) * time.Second, err == nil, nil
}

// get reads an object; false is that there is none.
func (c *Cluster) get(ctx context.Context, path string, into any) (found bool, err error) {
	body, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil || body == nil {
		return false, err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return false, fmt.Errorf("GET %s: %w", path, err)
	}
	return true, nil
}

// patch changes fields of an object; one that is gone stays gone.
func (c *Cluster) patch(ctx context.Context, path string, fields any) error {
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, http.MethodPatch, path, body)
	return err
}

// do returns the body of an answer, nil for 404.
func (c *Cluster) do(ctx context.Context, method, path string, content []byte) ([]byte, error) {
	token, err := c.Token()
	if err != nil {
		return nil, fmt.Errorf("read the token of the pod's service account: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", "application/json")
	if content != nil {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	answer, err := c.Client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the cluster's API: %w", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxObject+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	case answer.StatusCode == http.StatusNotFound:
		return nil, nil
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s %s: the cluster's API answers %s", method, path, answer.Status)
	case len(body) > maxObject:
		return nil, fmt.Errorf("%s %s: the answer has more than %d bytes", method, path, maxObject)
	}
	return body, nil
}

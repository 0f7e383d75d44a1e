package main

// What is asked of Kubernetes, in plain HTTP.

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

type api struct {
	base   string
	client *http.Client
}

// inCluster is the API as a pod sees it.
func inCluster() (api, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" {
		return api{}, errors.New("this is not a pod: KUBERNETES_SERVICE_HOST is empty")
	}
	authorities, err := os.ReadFile(filepath.Join(accountDir, "ca.crt"))
	if err != nil {
		return api{}, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return api{}, errors.New("the service account's ca.crt has no certificate")
	}
	return api{base: "https://" + net.JoinHostPort(host, port), client: &http.Client{
		Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}},
	}}, nil
}

// get reads an object. The token is read each time, because it is renewed in its file.
func (a api) get(ctx context.Context, path string, into any) error {
	token, err := os.ReadFile(filepath.Join(accountDir, "token"))
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	answer, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", path, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// ownNode is the name of the node that this pod is on.
func (a api) ownNode(ctx context.Context) (string, error) {
	if name := os.Getenv("NODE_NAME"); name != "" {
		return name, nil
	}
	var pod struct{ Spec struct{ NodeName string } }
	err := a.get(ctx, "/api/v1/namespaces/"+os.Getenv("POD_NAMESPACE")+"/pods/"+os.Getenv("POD_NAME"), &pod)
	return pod.Spec.NodeName, err
}

type node struct{ name, podCIDR, address string }

func (a api) nodes(ctx context.Context) ([]node, error) {
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ PodCIDR string }
			Status   struct {
				Addresses []struct{ Type, Address string }
			}
		}
	}
	if err := a.get(ctx, "/api/v1/nodes", &list); err != nil {
		return nil, err
	}
	var all []node
	for _, item := range list.Items {
		n := node{name: item.Metadata.Name, podCIDR: item.Spec.PodCIDR}
		for _, address := range item.Status.Addresses {
			if address.Type == "InternalIP" {
				n.address = address.Address
			}
		}
		all = append(all, n)
	}
	return all, nil
}

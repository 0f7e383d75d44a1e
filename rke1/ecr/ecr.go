// Package ecr gets logins for private registries of Amazon (ECR), which have no passwords of their own: with the keys of
// ecr_credential_plugin it asks Amazon for one that holds for twelve hours. It is for the pulls of the engine; kubelets have a helper.
//
// Wire source: Amazon ECR API Reference, GetAuthorizationToken; AWS General Reference, Signature Version 4; rancher/rke util
// ECRCredentialPlugin for the form of registries and for when it is asked.
package ecr

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/rke1/config"
)

// Bounds of what Amazon answers: a token has some 3 KiB.
const (
	maxAnswer = 64 << 10
	patience  = 30 * time.Second
)

// registry is the address of a registry: account, region and part of the world.
var registry = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}\.dkr\.ecr(-fips)?\.([a-z0-9][a-z0-9-]{0,63})\.amazonaws\.com(\.cn)?(/.*)?$`)
})

// Registries are those of a config with a user and a password for each that has keys for Amazon and none of its own. all stays as it
// is. transport nil takes http.DefaultTransport. What has no login in the end is in the error by its address, and the others have theirs.
func Registries(ctx context.Context, transport http.RoundTripper, now time.Time, all []config.PrivateRegistry) ([]config.PrivateRegistry, error) {
	all = slices.Clone(all)
	var failed []error
	for i := range all {
		r := &all[i]
		if r.ECRCredentialPlugin == nil || r.User != "" || r.Password != "" {
			continue
		}
		var err error
		if r.User, r.Password, err = login(ctx, transport, now, r); err != nil {
			failed = append(failed, fmt.Errorf("private_registries: %s has no login by ecr_credential_plugin, and images that hosts lack cannot be pulled from it: %w", r.URL, err))
		}
	}
	return all, errors.Join(failed...)
}

func login(ctx context.Context, transport http.RoundTripper, now time.Time, r *config.PrivateRegistry) (user, password string, err error) {
	found := registry().FindStringSubmatch(r.URL)
	if found == nil {
		return "", "", errors.New("its address is not ACCOUNT.dkr.ecr.REGION.amazonaws.com")
	}
	keys := r.ECRCredentialPlugin
	if keys.AccessKeyID == "" || keys.SecretAccessKey == "" {
		return "", "", errors.New("aws_access_key_id and aws_secret_access_key are not both given, and drover does not use the role of a machine: give them, or user and password")
	}
	host := "api.ecr." + found[2] + ".amazonaws.com" + found[3]
	if found[1] != "" {
		host = "ecr-fips." + found[2] + ".amazonaws.com" + found[3]
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body := []byte("{}")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+host+"/", bytes.NewReader(body))
	if err != nil {
		return "", "", err
	}
	headers := map[string]string{"content-type": "application/x-amz-json-1.1", "x-amz-target": "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"}
	if keys.SessionToken != "" {
		headers["x-amz-security-token"] = keys.SessionToken
	}
	for name, value := range signed(now, host, body, headers, scope{found[2], "ecr"}, keys.AccessKeyID, keys.SecretAccessKey) {
		req.Header.Set(name, value)
	}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(req)
	if err != nil {
		return "", "", fmt.Errorf("ask Amazon for a password: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return "", "", fmt.Errorf("ask %s for a password: %w", host, err)
	}
	return read(host, answer.StatusCode, text)
}

// read is the login in an answer.
func read(host string, status int, text []byte) (user, password string, err error) {
	var said struct {
		Type string `json:"__type"`
		Data []struct {
			Token string `json:"authorizationToken"`
		} `json:"authorizationData"`
	}
	if len(text) > maxAnswer || json.Unmarshal(text, &said) != nil {
		said.Type = "an answer that is none of Amazon's"
	}
	if status != http.StatusOK {
		return "", "", fmt.Errorf("%s refuses a password: status %d, %.100q; look at the keys, and whether they may ecr:GetAuthorizationToken", host, status, said.Type)
	}
	if len(said.Data) > 0 {
		if token, err := base64.StdEncoding.DecodeString(said.Data[0].Token); err == nil {
			if user, password, ok := strings.Cut(string(token), ":"); ok && user != "" && password != "" {
				return user, password, nil
			}
		}
	}
	return "", "", fmt.Errorf("%s gave no password that can be read", host)
}

// scope is what a signature holds for, beside a day.
type scope struct{ region, service string }

// signed are the headers of a POST to / with its signature. Names of headers are small.
func signed(now time.Time, host string, body []byte, headers map[string]string, of scope, key, secret string) map[string]string {
	stamp := now.UTC().Format("20060102T150405Z")
	all := map[string]string{"x-amz-date": stamp, "host": host}
	maps.Copy(all, headers)
	request := "POST\n/\n\n"
	names := slices.Sorted(maps.Keys(all))
	for _, name := range names {
		request += name + ":" + strings.TrimSpace(all[name]) + "\n"
	}
	list := strings.Join(names, ";")
	request += "\n" + list + "\n" + sum(body)
	day := []string{stamp[:8], of.region, of.service, "aws4_request"}
	with := []byte("AWS4" + secret)
	for _, part := range day {
		with = mac(with, part)
	}
	signature := mac(with, strings.Join([]string{"AWS4-HMAC-SHA256", stamp, strings.Join(day, "/"), sum([]byte(request))}, "\n"))
	delete(all, "host") // net/http sends it
	all["authorization"] = "AWS4-HMAC-SHA256 Credential=" + key + "/" + strings.Join(day, "/") + ", SignedHeaders=" + list + ", Signature=" + hex.EncodeToString(signature)
	return all
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

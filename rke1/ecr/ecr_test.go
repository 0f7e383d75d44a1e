package ecr

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/config"
)

var noon = time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)

// The signature is that of "post-vanilla" in Amazon's own test suite of Signature Version 4.
func TestSignature(t *testing.T) {
	got := signed(noon, "example.amazonaws.com", nil, nil, scope{"us-east-1", "service"}, "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
	want := map[string]string{"x-amz-date": "20150830T123600Z", "authorization": "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, " +
		"SignedHeaders=host;x-amz-date, Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// amazon answers in the place of every host. It has the certificate of example.com.
func amazon(t *testing.T, answer http.HandlerFunc) *http.Transport {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com"},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		},
	}
}

func TestRegistries(t *testing.T) {
	token := base64.StdEncoding.EncodeToString([]byte("AWS:pass:word"))
	way := amazon(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		target := r.Header.Get("X-Amz-Target")
		if err != nil || string(body) != "{}" || r.Method != http.MethodPost || r.URL.Path != "/" || target != "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken" ||
			r.Header.Get("Content-Type") != "application/x-amz-json-1.1" || !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKIA/20150830/") {
			t.Errorf("asked by %s %s %s %v", r.Method, r.URL, body, r.Header)
		}
		switch r.Host {
		case "api.ecr.eu-central-1.amazonaws.com", "ecr-fips.us-east-1.amazonaws.com":
			io.WriteString(w, `{"authorizationData": [{"authorizationToken": "`+token+`", "expiresAt": 1.5E9, "proxyEndpoint": "https://elsewhere"}]}`)
		case "api.ecr.cn-north-1.amazonaws.com.cn":
			if r.Header.Get("X-Amz-Security-Token") != "session" || !strings.Contains(r.Header.Get("Authorization"), ";x-amz-security-token;") {
				t.Error("the session's token is not sent, or not signed")
			}
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"__type": "UnrecognizedClientException", "message": "The security token included in the request is invalid."}`)
		case "api.ecr.eu-west-1.amazonaws.com":
			http.Redirect(w, r, "https://elsewhere.example", http.StatusTemporaryRedirect)
		case "api.ecr.eu-west-2.amazonaws.com":
			io.WriteString(w, strings.Repeat(" ", maxAnswer)+"{}")
		default:
			io.WriteString(w, `{"authorizationData": [{"authorizationToken": "%%%"}]}`)
		}
	})
	keys := &config.ECRCredentialPlugin{AccessKeyID: "AKIA", SecretAccessKey: "hush-hush"}
	session := &config.ECRCredentialPlugin{AccessKeyID: "AKIA", SecretAccessKey: "hush-hush", SessionToken: "session"}
	for _, c := range []struct {
		url            string
		plugin         *config.ECRCredentialPlugin
		user, password string
		want           string // of the error
	}{
		{"1234.dkr.ecr.eu-central-1.amazonaws.com", keys, "AWS", "pass:word", ""},
		{"1234.dkr.ecr-fips.us-east-1.amazonaws.com/team", keys, "AWS", "pass:word", ""},
		{"1234.dkr.ecr.cn-north-1.amazonaws.com.cn", session, "", "", `refuses a password: status 400, "UnrecognizedClientException"`},
		{"1234.dkr.ecr.eu-west-1.amazonaws.com", keys, "", "", "status 307"},
		{"1234.dkr.ecr.eu-west-2.amazonaws.com", keys, "", "", "gave no password that can be read"},
		{"1234.dkr.ecr.eu-west-3.amazonaws.com", keys, "", "", "gave no password that can be read"},
		{"1234.dkr.ecr.eu-west-3.amazonaws.com", &config.ECRCredentialPlugin{}, "", "", "drover does not use the role of a machine"},
		{"registry.example.com", keys, "", "", "its address is not ACCOUNT.dkr.ecr.REGION.amazonaws.com"},
		{"1234.dkr.ecr.eu/../x.amazonaws.com", keys, "", "", "its address is not"},
		{"1234.dkr.ecr.eu-central-1.amazonaws.com.example.org", keys, "", "", "its address is not"},
		{"registry.example.com", nil, "", "", ""},
	} {
		given := []config.PrivateRegistry{{URL: c.url, ECRCredentialPlugin: c.plugin}, {URL: "other.example", User: "u", Password: "p"}}
		got, err := Registries(t.Context(), way, noon, given)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush")) {
			t.Errorf("%s: %v", c.url, err)
		}
		if got[0].User != c.user || got[0].Password != c.password || got[1] != given[1] || given[0].User != "" {
			t.Errorf("%s: %q %q", c.url, got[0].User, got[0].Password)
		}
	}
	own := []config.PrivateRegistry{{URL: "1234.dkr.ecr.eu-central-1.amazonaws.com", User: "u", Password: "p", ECRCredentialPlugin: keys}}
	if got, err := Registries(t.Context(), way, noon, own); err != nil || got[0] != own[0] {
		t.Errorf("a login of its own: %+v, %v", got, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(200, []byte(`{"authorizationData": [{"authorizationToken": "QVdTOnA="}]}`))
	f.Add(400, []byte(`{"__type": "AccessDeniedException"}`))
	f.Fuzz(func(t *testing.T, status int, text []byte) {
		user, password, err := read("host", status, text)
		if (err == nil) != (user != "" && password != "") {
			t.Errorf("user %q with %v", user, err)
		}
	})
}

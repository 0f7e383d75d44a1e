package liar

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/tunnel/connect"
)

// Host plays a host: it joins, opens its tunnel, and answers for its agent, its Docker engine and its API, until ctx ends.
func Host(ctx context.Context, p *Played) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if p.Docker {
		return p.dockerHost(ctx)
	}
	a, err := newAuthority()
	if err != nil {
		return err
	}
	token, secret, err := p.join(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.config = p.kubeconfig(a)
	p.mu.Unlock()
	agent, api := pipes(ctx, p.or(p.agent), nil), pipes(ctx, p.or(p.api), a.config)
	if p.Lie == Outcomes {
		go p.outcomes(ctx, token, secret) // until ctx ends
	}
	return p.tunnel(ctx, "/v3/connect/machine", http.Header{"Authorization": {"Bearer " + token}}, func(_ context.Context, _, address string) (net.Conn, error) {
		if strings.HasPrefix(address, "drover-agent") {
			return agent.dial()
		}
		return api.dial()
	})
}

// dockerHost plays the node agent of a host with a Docker engine.
func (p *Played) dockerHost(ctx context.Context) error {
	params, err := connect.Encode(connect.Params{Node: &connect.Node{
		RequestedHostname: p.Name, Etcd: true, ControlPlane: true, Worker: true,
		CustomConfig: &connect.CustomConfig{Address: "192.0.2.7", Roles: []string{"etcd", "controlplane", "worker"}},
		DockerInfo:   &connect.DockerInfo{ID: p.Name, ServerVersion: "20.10.24", OSType: "linux", Driver: "overlay2", CgroupDriver: "systemd"},
	}})
	if err != nil {
		return err
	}
	engine := pipes(ctx, p.or(p.docker), nil)
	return p.tunnel(ctx, connect.RegisterPath, http.Header{connect.TokenHeader: {p.Token}, connect.ParamsHeader: {params}}, func(context.Context, string, string) (net.Conn, error) {
		return engine.dial()
	})
}

// join registers the host and returns its token and the path of its Secret.
func (p *Played) join(ctx context.Context) (token, secret string, err error) {
	body, err := p.ask(ctx, http.MethodGet, "/v3/connect/agent", p.Token, http.Header{
		"X-Cattle-Id": {p.Name}, "X-Cattle-Role-Control-Plane": {"true"}, "X-Cattle-Role-Etcd": {"true"}, "X-Cattle-Role-Worker": {"true"},
		"X-Cattle-Internal-Address": {"10.0.0.1"}, "X-Cattle-Labels": {"cattle.io/os=linux"},
	}, nil)
	if err != nil {
		return "", "", fmt.Errorf("join: %w", err)
	}
	var connection struct{ Namespace, SecretName, KubeConfig string }
	if err := json.Unmarshal(body, &connection); err != nil {
		return "", "", err
	}
	var config struct {
		Users []struct {
			User struct {
				Token string `yaml:"token"`
			} `yaml:"user"`
		} `yaml:"users"`
	}
	if err := yaml.Unmarshal([]byte(connection.KubeConfig), &config); err != nil || len(config.Users) != 1 {
		return "", "", errors.New("the answer to the registration has no kubeconfig with one user")
	}
	return config.Users[0].User.Token, "/api/v1/namespaces/" + connection.Namespace + "/secrets/" + connection.SecretName, nil
}

func (p *Played) ask(ctx context.Context, method, path, token string, header http.Header, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, p.server+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = header
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := p.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 8<<20))
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %.300s", method, path, answer.Status, text)
	}
	return text, err
}

// kubeconfig is what the host's agent gives for one.
func (p *Played) kubeconfig(a *authority) string {
	b64 := base64.StdEncoding.EncodeToString(a.bundle)
	user, cluster := "{token: liar}", "certificate-authority-data: "+b64
	switch p.Lie {
	case ExecKubeconfig:
		user = fmt.Sprintf(`{exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: [%q], interactiveMode: Never}}`, p.Marker)
	case FileKubeconfig:
		user = fmt.Sprintf("{tokenFile: %q}", p.Marker+".secret")
		cluster += ", proxy-url: \"http://" + p.Trap + "\""
	}
	return fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: d, contexts: [{name: d, context: {cluster: d, user: d}}],
clusters: [{name: d, cluster: {server: "https://127.0.0.1:6443", %s}}], users: [{name: d, user: %s}]}`, cluster, user)
}

// outcomes reports what no agent reports, again and again.
func (p *Played) outcomes(ctx context.Context, token, secret string) {
	for i := 0; ctx.Err() == nil; i++ {
		name := "OUTCOME " + plans.KeyAppliedOutput
		if err := p.report(ctx, token, secret, i); err != nil {
			name += " " + err.Error()
		}
		p.note(name, true)
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// report sends one hostile outcome for the plan that waits.
func (p *Played) report(ctx context.Context, token, path string, i int) error {
	text, err := p.ask(ctx, http.MethodGet, path, token, http.Header{}, nil)
	if err != nil {
		return err
	}
	var secret map[string]any
	if err := json.Unmarshal(text, &secret); err != nil {
		return err
	}
	data, _ := secret["data"].(map[string]any)
	if data == nil {
		data = map[string]any{}
	}
	plan, _ := data[plans.KeyPlan].(string)
	sum, _ := base64.StdEncoding.DecodeString(plan)
	set := func(key, value string) { data[key] = base64.StdEncoding.EncodeToString([]byte(value)) }
	hostile := strings.Join(Hostile, " ")
	set(plans.KeyAppliedChecksum, plans.Checksum(sum))
	switch i % 4 {
	case 0: // 256 MiB of gzip in 256 KiB, as output
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = io.WriteString(z, `{"install":"`)
		for range 256 {
			_, _ = z.Write(bytes.Repeat([]byte("A"), 1<<20))
		}
		_, _ = io.WriteString(z, `"}`)
		_ = z.Close()
		set(plans.KeyAppliedOutput, packed.String())
		set(plans.KeyFailedOutput, packed.String())
	case 1:
		set(plans.KeyPlanState, hostile)
		set(plans.KeySuccessCount, "-99999999999999999999")
		set(plans.KeyPlanRevision, "1e9")
		set(plans.KeyLastApplyTime, hostile)
	case 2:
		set(plans.KeyProbeStatuses, `{"`+strings.Repeat("p", 400_000)+`":{"healthy":"yes"},"x":[`+strings.Repeat("[", 10_000)+`]}`)
		set(plans.KeyHostReport, strings.Repeat(`{"a":`, 20_000))
	default:
		out, err := plans.EncodeOutputs(map[string][]byte{hostile: []byte(hostile)})
		if err != nil {
			return err
		}
		set(plans.KeyAppliedOutput, string(out))
		set(plans.KeyPlanState, string(plans.StateFailed))
		set(plans.KeyFailedChecksum, plans.Checksum(sum))
		set(plans.KeyFailedOutput, string(out))
	}
	secret["data"] = data
	body, err := json.Marshal(secret)
	if err != nil {
		return err
	}
	_, err = p.ask(ctx, http.MethodPut, path, token, http.Header{"Content-Type": {"application/json"}}, body)
	return err
}

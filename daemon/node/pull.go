// Pulling the node config: asking the server at the pace that it gives, and reporting
// to it which version is applied.

package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/tunnel/connect"
)

// How long to wait after an answer. The server's own interval holds after a node config.
const (
	afterFault   = 5 * time.Second // 401, 500, no answer
	afterSoon    = 2 * time.Second // 503: the server has not planned this host yet
	afterNothing = 2 * time.Minute // 404, after some tries
	usually      = 2 * time.Minute
	longest      = time.Minute // to which the first two grow
	// nothingTries is how often 404 is taken for something that passes.
	nothingTries = 3
	// configLimit bounds one request: servers of the original wait while they plan.
	configLimit = 5 * time.Minute
)

type pull struct {
	*agent
	kick         chan struct{} // has one entry when it is time to ask at once
	fault        backoff.Backoff
	soon         backoff.Backoff
	none         int
	acknowledged int // version
}

func newPull(a *agent) *pull {
	return &pull{agent: a, kick: make(chan struct{}, 1),
		fault: backoff.Backoff{Min: afterFault, Max: longest, Floor: 0.8}, soon: backoff.Backoff{Min: afterSoon, Max: longest, Floor: 0.8}}
}

// now asks for a node config at once.
func (p *pull) now() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// run asks as soon as the tunnel is open, and then on and on.
func (p *pull) run(ctx context.Context) error {
	next := 24 * time.Hour // nothing is known of a host that has never connected
	if p.registered() {
		next = 0
	}
	timer := time.NewTimer(next)
	defer timer.Stop()
	for {
		version := 0
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-p.kick:
		case version = <-p.keeper.applied:
			if version == 0 || version == p.acknowledged {
				continue
			}
		}
		timer.Reset(max(p.once(ctx, version), p.spared.Left(p.Now())))
	}
}

// once asks once and says when to ask again. A version that is not 0 is acknowledged.
func (p *pull) once(ctx context.Context, version int) time.Duration {
	wanted, err := p.get(ctx, version)
	next := p.weigh(err)
	switch {
	case ctx.Err() != nil:
		return next
	case err == nil:
		p.liveStatus.set(onConfig, nil)
		if version != 0 {
			p.acknowledged = version
		}
		p.keeper.take(wanted)
		if wanted.AgentCheckInterval > 0 {
			next = time.Duration(wanted.AgentCheckInterval) * time.Second
		}
	case errors.Is(err, errNoConfig) && p.none >= nothingTries:
		p.liveStatus.set(onConfig, nil) // this host has none
	default:
		p.liveStatus.set(onConfig, err)
	}
	return next
}

var (
	errNoConfig = errors.New("the server knows no such node, or its cluster is none of RKE1")
	errNotYet   = errors.New("the server has not planned this node yet")
)

// weigh says when to ask again after an outcome.
func (p *pull) weigh(err error) time.Duration {
	if !errors.Is(err, errNoConfig) {
		p.none = 0
	}
	switch {
	case err == nil:
		p.fault.Reset()
		p.soon.Reset()
		return usually
	case errors.Is(err, errNotYet):
		return p.soon.Next()
	case errors.Is(err, errNoConfig):
		p.none++
		if p.none >= nothingTries {
			return afterNothing
		}
	}
	return p.fault.Next()
}

func (p *pull) get(ctx context.Context, version int) (*nodeconfig.NodeConfig, error) {
	ctx, cancel := context.WithTimeout(ctx, configLimit)
	defer cancel()
	var wanted *nodeconfig.NodeConfig
	err := p.authority.over(ctx, func(trusted *tls.Config) (err error) {
		wanted, err = p.ask(ctx, trusted, version)
		return err
	})
	return wanted, err
}

// ask makes one request.
func (p *pull) ask(ctx context.Context, trusted *tls.Config, version int) (*nodeconfig.NodeConfig, error) {
	params, err := connect.Encode(p.params(p.docker.said(), version))
	if err != nil {
		return nil, err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Server.String()+connect.ConfigPath, nil)
	if err != nil {
		return nil, err
	}
	q.Header.Set("User-Agent", p.UserAgent)
	q.Header.Set(connect.TokenHeader, p.Token)
	q.Header.Set(connect.CredentialHeader, p.credential)
	q.Header.Set(connect.ParamsHeader, params)
	q.Header.Set(connect.RegenerateHeader, strconv.FormatBool(p.keeper.needsCertificate()))
	client := http.Client{Transport: p.sparing(trusted), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // the token goes to the server alone
	answer, err := client.Do(q)
	if err != nil {
		return nil, fmt.Errorf("ask for the node config: %w", err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(io.LimitReader(answer.Body, nodeconfig.MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the node config: %w", err)
	}
	return understand(answer.StatusCode, answer.Header.Get("Content-Type"), b)
}

// understand makes a node config of an answer.
func understand(status int, contentType string, body []byte) (*nodeconfig.NodeConfig, error) {
	text := line1(string(body[:min(len(body), 300)]))
	switch status {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("the server refuses the registration token (%d %s)", status, text)
	case http.StatusNotFound:
		return nil, errNoConfig
	case http.StatusServiceUnavailable:
		return nil, fmt.Errorf("%w: %s", errNotYet, text)
	default:
		return nil, fmt.Errorf("the server answers %d %s: %s", status, http.StatusText(status), text)
	}
	if media, _, _ := mime.ParseMediaType(contentType); media == "text/html" || strings.HasPrefix(strings.TrimSpace(text), "<") {
		return nil, errors.New("the answer is a web page: something else, such as a login page of a proxy, stands before the server")
	}
	return nodeconfig.Decode(body)
}

// The checks of the start. Their texts are those of the original agent, because people
// and support scripts look for them; unlike there, none of them ends the agent.

package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/plans/backoff"
)

const (
	pingLimit = 10 * time.Second
	// pingEvery is how often a server that answers is asked again.
	pingEvery = 2 * time.Minute
	// maxSkew is how far this host's clock may be from the server's.
	maxSkew = 5 * time.Minute
)

// check looks at the host once and at the server for ever.
func (a *agent) check(ctx context.Context) error {
	a.checkDockerSocket()
	a.checkResolvConf("/etc/resolv.conf")
	a.checkNames(ctx)
	return a.watchServer(ctx)
}

// watchServer asks for ever whether the server is there.
func (a *agent) watchServer(ctx context.Context) error {
	pauses := backoff.Server(a.Now)
	said := ""
	for {
		err := a.ping(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a.liveStatus.set(onServer, err)
		text, next := fmt.Sprintf("INFO: %s/ping is accessible", a.Server), pingEvery
		if err != nil {
			text, next = fmt.Sprintf("ERROR: %s/ping is not accessible (%s)", a.Server, line1(err.Error())), pauses.After(err)
		} else {
			pauses.Reset()
		}
		if text != said {
			a.Logger.Info(text)
			said = text
		}
		if err := backoff.Wait(ctx, max(next, a.spared.Left(a.Now()))); err != nil {
			return err
		}
	}
}

func (a *agent) checkDockerSocket() {
	info, err := os.Stat(a.DockerSocket)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		a.Logger.Warn("WARN: Docker socket is not available!", "socket", a.DockerSocket)
		a.Logger.Warn("WARN: Please bind mount in the docker socket to /var/run/docker.sock if docker errors occur")
		a.Logger.Warn("WARN: example:  docker run -v /var/run:/var/run ...")
	}
}

func (a *agent) checkResolvConf(path string) {
	b, err := os.ReadFile(path)
	if err != nil {
		a.Logger.Warn("WARN: /etc/resolv.conf cannot be read", "error", err)
		return
	}
	a.Logger.Info("INFO: Using resolv.conf:", "content", line1(string(b)))
	if loopbackResolver(string(b)) {
		a.Logger.Warn("WARN: Loopback address found in /etc/resolv.conf, please refer to the documentation how to configure your cluster to resolve DNS properly")
	}
}

// loopbackResolver says whether a nameserver is on loopback, where a container's own network has none.
func loopbackResolver(conf string) bool {
	for line := range strings.Lines(conf) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		if ip, err := netip.ParseAddr(words[1]); err == nil && ip.IsLoopback() {
			return true
		}
	}
	return false
}

func (a *agent) checkNames(ctx context.Context) {
	host := a.Server.Hostname()
	if net.ParseIP(host) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		a.Logger.Warn("WARN: the server's name does not resolve", "host", host, "error", err)
		return
	}
	slices.Sort(ips)
	a.Logger.Info(fmt.Sprintf("INFO: %s resolves to %s", host, strings.Join(ips, " ")))
}

// ping asks whether the server is there. It verifies no certificate and sends no secret; the
// answering server is not trusted with anything but this host's opinion of its clock.
func (a *agent) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Server.String()+"/ping", nil)
	if err != nil {
		return err
	}
	q.Header.Set("User-Agent", a.UserAgent)
	answer, err := a.unverified().Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(io.LimitReader(answer.Body, 64))
	if err != nil {
		return err
	}
	a.checkClock(answer.Header.Get("Date"))
	if answer.StatusCode != http.StatusOK || strings.TrimSpace(string(b)) != "pong" {
		return fmt.Errorf("it answers %s and not pong; is %s the address of the management server?", answer.Status, a.Server)
	}
	return nil
}

func (a *agent) checkClock(date string) {
	there, err := http.ParseTime(date)
	if err != nil {
		return // a proxy took it out
	}
	skew := a.Now().Sub(there)
	switch {
	case skew > maxSkew:
		err = fmt.Errorf("this host's clock is %s ahead of the server's, so certificates seem to have expired; set up NTP", skew.Round(time.Minute))
	case skew < -maxSkew:
		err = fmt.Errorf("this host's clock is %s behind the server's, so certificates seem not to be valid yet; set up NTP", (-skew).Round(time.Minute))
	}
	a.liveStatus.set(onClock, err)
}

// unverified is a client for what needs no trust: liveness, and a CA that is compared
// with its checksum afterwards. Its request to be left alone counts: who can answer can keep other answers away as well.
func (o *Options) unverified() *http.Client {
	return &http.Client{
		Transport: o.sparing(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}), // #nosec G402 -- what it is for
		CheckRedirect: func(q *http.Request, via []*http.Request) error {
			if len(via) > 3 || q.URL.Scheme != "https" {
				return errors.New("too many redirections, or one to plain HTTP")
			}
			return nil
		},
	}
}

// sparing heeds the server's requests. Requests are minutes apart: an idle connection would only cost memory.
func (o *Options) sparing(trusted *tls.Config) http.RoundTripper {
	return backoff.Sparing{Spared: o.spared, Now: o.Now, Next: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: o.dialServer, TLSClientConfig: trusted, DisableKeepAlives: true,
	}}
}

// dialServer connects to the server, whose name may be looked up in a way of its own, or
// to the proxy on the way to it.
func (o *Options) dialServer(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if o.Resolve == nil || host != o.Server.Hostname() {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	found, err := o.Resolve(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", host, err)
	}
	failed := fmt.Errorf("look up %s: no address", host)
	for _, one := range found {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(one.String(), port))
		if err == nil {
			return conn, nil
		}
		failed = err
	}
	return nil, failed
}

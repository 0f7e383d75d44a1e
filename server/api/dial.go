// Connections to hosts for people: the Docker socket of a Docker host, and the few ports
// that may be dialled. The request becomes the connection.

package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/nodeagents"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/tunnel"
)

const (
	// dialProtocol is what the request is upgraded to: the bytes of the connection, as they are.
	dialProtocol = "drover-dial"
	// pingLimit bounds the question whether Docker answers.
	pingLimit = 10 * time.Second
)

// dialHost is GET /v1-drover/machines/{namespace}/{name}/dial?target=docker or an address:port.
// Without an upgrade it only tells whether Docker answers.
func (a *API) dialHost(c *call, key string) {
	d, ok := a.State.Machines.Get(key)
	if !ok || !c.who.Admin {
		c.fail(norman.Missing("machine", key))
		return
	}
	target := c.query().Get("target")
	network, address, err := dialTarget(d.Value, target)
	if err != nil {
		c.fail(err)
		return
	}
	log := a.Logger.With("user", c.who.UserID, "token", c.who.TokenName, "source", a.Origin.Source(c.r), "machine", key, "host", d.Value.NodeName, "target", network+" "+address)
	if a.Dial == nil {
		c.fail(norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "this server has no way to the hosts"))
		return
	}
	upgrade := strings.EqualFold(c.r.Header.Get("Upgrade"), dialProtocol)
	if !upgrade && network != "unix" {
		c.fail(norman.Errorf(http.StatusUpgradeRequired, norman.InvalidOption, "send the header Upgrade: %s", dialProtocol))
		return
	}
	host, err := a.Dial(tunnel.Patient(c.ctx()), d.Value.Subject(), network, address)
	if err != nil {
		log.Info("connection to a host refused", "error", err)
		c.fail(noWay(d.Value, err))
		return
	}
	defer host.Close()
	if !upgrade {
		a.pingDocker(c, host)
		return
	}
	log.Info("connection to a host opened")
	began := a.Now()
	in, out, err := c.become(host)
	log.Info("connection to a host closed", "seconds", int(a.Now().Sub(began).Seconds()), "bytesIn", in, "bytesOut", out, "error", err)
}

// dialTarget is what a person may have dialled; the tunnel has its own list below this one.
func dialTarget(m records.Machine, target string) (network, address string, err error) {
	refuse := func(format string, args ...any) (string, string, error) {
		return "", "", norman.Invalid(norman.InvalidOption, "target", format, args...)
	}
	switch {
	case target == "":
		return refuse("is missing; it is docker or an address and port of the host")
	case target == "docker" && m.Docker == nil:
		return refuse("machine %s has a system agent, which offers no Docker socket", m.Name)
	case target == "docker":
		return "unix", nodeagents.DockerSocket, nil
	case target == nodeagents.AgentService:
		return refuse("%s is the agent itself and for the server alone", target)
	}
	if _, _, err := net.SplitHostPort(target); err != nil {
		return refuse("%.80q is neither docker nor address:port", target)
	}
	return "tcp", target, nil
}

// noWay tells apart what is not allowed from what does not work now.
func noWay(m records.Machine, err error) error {
	if refused, ok := errors.AsType[*tunnel.RefusedError](err); ok {
		return norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "%v", refused)
	}
	return unreachable(m, err)
}

// pingDocker answers with what Docker says to GET /_ping.
func (a *API) pingDocker(c *call, host net.Conn) {
	ctx, cancel := context.WithTimeout(c.ctx(), pingLimit)
	defer cancel()
	defer context.AfterFunc(ctx, func() { host.Close() })()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		c.fail(err)
		return
	}
	request.Close = true
	err = request.Write(host)
	var answer *http.Response
	if err == nil {
		answer, err = http.ReadResponse(bufio.NewReader(host), request)
	}
	if err == nil {
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("it answered %s", answer.Status)
		}
	}
	if err != nil {
		c.fail(norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "Docker on the host does not answer: %v", err))
		return
	}
	c.send(http.StatusOK, map[string]string{"type": "docker", "apiVersion": answer.Header.Get("Api-Version"), "osType": answer.Header.Get("Ostype")})
}

// become turns the request into the connection and carries both ways until both have ended;
// see tunnel.Join.
func (c *call) become(host net.Conn) (in, out int64, err error) {
	person, err := tunnel.Hijack(c.w)
	if err != nil {
		c.fail(norman.Errorf(http.StatusInternalServerError, norman.ServerError, "%v", err))
		return 0, 0, err
	}
	defer person.Close()
	defer context.AfterFunc(c.ctx(), func() { person.Close(); host.Close() })()
	if _, err := fmt.Fprintf(person, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", dialProtocol); err != nil {
		return 0, 0, err
	}
	return tunnel.Join(host, person)
}

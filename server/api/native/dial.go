// Connections to hosts for people: the Docker socket of a Docker host, and the few ports
// that may be dialled. The request becomes the connection.

package native

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/answers"
)

const (
	// dialProtocol is what the request is upgraded to: the bytes of the connection, as they are.
	dialProtocol = "drover-dial"
	// pingLimit bounds the question whether Docker answers.
	pingLimit = 10 * time.Second
)

// Dial is GET /v1-drover/machines/{namespace}/{name}/dial?target=docker or an address:port.
// Without an upgrade it only says whether Docker answers.
func (a Machines) Dial(c *route.Call, d store.Document[records.Machine]) (route.Answer, error) {
	target := c.Query().Get("target")
	network, address, err := dialTarget(d.Value, target)
	if err != nil {
		return route.Answer{}, err
	}
	log := a.Logger.With("user", c.Who.UserID, "token", c.Who.TokenName, "source", c.Source(), "machine", d.Key, "host", d.Value.NodeName, "target", network+" "+address)
	if a.DialOnHost == nil {
		return route.Answer{}, norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "this server has no way to the hosts")
	}
	upgrade := strings.EqualFold(c.R.Header.Get("Upgrade"), dialProtocol)
	if !upgrade && network != "unix" {
		return route.Answer{}, norman.Errorf(http.StatusUpgradeRequired, norman.InvalidOption, "send the header Upgrade: %s", dialProtocol)
	}
	defer c.Bind(aboutMachine(d.Value))()
	host, err := a.DialOnHost(c.Ctx(), d.Value.Subject(), tunnel.Target{Network: network, Address: address, Patient: true})
	if err != nil {
		log.Info("connection to a host refused", "error", err)
		return route.Answer{}, noWay(d.Value, err)
	}
	defer host.Close()
	if !upgrade {
		return pingDocker(c, host)
	}
	log.Info("connection to a host opened")
	began := a.Now()
	in, out, err := become(c, host)
	c.Carried(out, in) // in and out are the host's
	log.Info("connection to a host closed", "seconds", int(a.Now().Sub(began).Seconds()), "bytesIn", in, "bytesOut", out, "error", err)
	return route.Answer{}, nil
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
		return "unix", hosts.DockerSocket, nil
	case target == hosts.AgentService:
		return refuse("%s is the agent itself and for the server alone", target)
	}
	if _, _, err := net.SplitHostPort(target); err != nil {
		return refuse("%.80q is neither docker nor address:port", target)
	}
	return "tcp", target, nil
}

// noWay distinguishes what is not allowed from what does not work now.
func noWay(m records.Machine, err error) error {
	if refused, ok := errors.AsType[*tunnel.RefusedError](err); ok {
		return norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "%v", refused)
	}
	return unreachable(m, err)
}

// pingDocker answers with what Docker says to GET /_ping.
func pingDocker(c *route.Call, host net.Conn) (route.Answer, error) {
	ctx, cancel := context.WithTimeout(c.Ctx(), pingLimit)
	defer cancel()
	defer context.AfterFunc(ctx, func() { host.Close() })()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		return route.Answer{}, err
	}
	request.Close = true
	var answer *http.Response
	if err = request.Write(host); err == nil {
		answer, err = http.ReadResponse(bufio.NewReader(io.LimitReader(host, answers.HeaderBytes)), request)
	}
	if err == nil {
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("it answered %s", answer.Status)
		}
	}
	if err != nil {
		return route.Answer{}, norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "Docker on the host does not answer: %v", err)
	}
	return route.Answer{Status: http.StatusOK, Body: map[string]string{"type": "docker", "apiVersion": answer.Header.Get("Api-Version"), "osType": answer.Header.Get("Ostype")}}, nil
}

// become turns the request into the connection and carries both ways until both have ended;
// see tunnel.Join.
func become(c *route.Call, host net.Conn) (in, out int64, err error) {
	person, err := tunnel.Hijack(c.W)
	if err != nil {
		c.Fail(norman.Errorf(http.StatusInternalServerError, norman.ServerError, "%v", err))
		return 0, 0, err
	}
	defer person.Close()
	defer context.AfterFunc(c.Ctx(), func() { person.Close(); host.Close() })()
	if _, err := fmt.Fprintf(person, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", dialProtocol); err != nil {
		return 0, 0, err
	}
	return tunnel.Join(host, person)
}

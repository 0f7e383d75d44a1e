// Who is let in: the registration token, what the host says of itself, and whether it is
// the host that its name belongs to.

package nodeagents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/clientip"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel/connect"
)

// tries bounds how often an admission starts over because the machine came meanwhile.
const tries = 20

// refusal is a no with a status.
type refusal struct {
	status int
	text   string
	wait   time.Duration // until it makes sense to ask again; 0 says nothing
	config int           // the status of a request for a node config, if it is another one
}

func (e *refusal) Error() string { return e.text }

func no(status int, format string, args ...any) *refusal {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

// explain is what an agent is answered to an error; those other than a refusal are the server's own.
func explain(err error) *refusal {
	if said, ok := errors.AsType[*refusal](err); ok {
		return said
	}
	if full, ok := errors.AsType[*norman.Error](err); ok {
		return &refusal{status: full.Status, text: full.Message, wait: full.RetryAfter}
	}
	return &refusal{status: http.StatusInternalServerError, text: "the server could not store this host; its log says why", wait: 5 * time.Second}
}

func gone(host string) *refusal {
	return no(http.StatusBadRequest, "machine of host %s is being removed; wait until it is gone, then start the agent again", host)
}

// cluster is the one that the request's token is for. Unknown tokens are distinguished from
// missing ones as the peers do.
func (a *Agents) cluster(r *http.Request) (records.Cluster, error) {
	token := r.Header.Get(connect.TokenHeader)
	if token == "" {
		return records.Cluster{}, no(http.StatusUnauthorized, "failed authentication")
	}
	cluster, err := a.Tokens.ClusterByToken(token)
	if err != nil {
		a.Logger.Info("node agent without a valid token", "host", r.RemoteAddr, "reason", err)
		if wait := a.Tokens.WrongToken(r.RemoteAddr); wait > 0 {
			return records.Cluster{}, &refusal{status: http.StatusTooManyRequests, text: "too many wrong registration tokens from this address", wait: wait}
		}
		return records.Cluster{}, &refusal{status: http.StatusBadRequest, text: "cluster not found", config: http.StatusUnauthorized}
	}
	if !cluster.Spec.Docker() {
		said := no(http.StatusBadRequest, "cluster %s is not one of Docker hosts: run on the host what `drover clusters join-command %s` prints", cluster.Name, cluster.Name)
		said.config = http.StatusNotFound
		return records.Cluster{}, said
	}
	return cluster, nil
}

// admit finds or makes the machine of the host that asks.
func (a *Agents) admit(ctx context.Context, r *http.Request, register bool) (records.Machine, error) {
	cluster, err := a.cluster(r)
	if err != nil {
		return records.Machine{}, err
	}
	params, err := connect.Decode(r.Header.Get(connect.ParamsHeader))
	if err != nil {
		return records.Machine{}, no(http.StatusBadRequest, "%v", err)
	}
	if register && params.Node != nil && (params.Node.CustomConfig == nil || params.Node.CustomConfig.Address == "") {
		return records.Machine{}, no(http.StatusBadRequest, "node.customConfig.address is empty; give the host's address with --address")
	}
	if params.Node == nil {
		return records.Machine{}, no(http.StatusBadRequest, "node is missing; a cluster agent has no node config")
	}
	asked := newHost(cluster, *params.Node)
	if asked.Docker.CredentialHash, err = credential(r); err != nil {
		return records.Machine{}, err
	}
	if from := clientip.Of(r.RemoteAddr); from.IsValid() {
		asked.Docker.Source = from.String()
	}
	if _, known := a.State.Machines.Get(asked.Key()); !known && !cluster.Deleting.IsZero() {
		return records.Machine{}, no(http.StatusConflict, "cluster %s is being removed since %s and takes no machines", cluster.Name, cluster.Deleting.Format(time.RFC3339))
	}
	for range tries {
		m, err := a.store(ctx, asked, register, func() (records.Origin, error) { return a.Tokens.Room(r.Header.Get(connect.TokenHeader), r.RemoteAddr) })
		if _, exists := errors.AsType[*store.ExistsError](err); exists {
			continue // another of its tunnels was quicker
		}
		if err == nil {
			a.Logger.Info("node agent let in", "host", r.RemoteAddr, "machine", m.Key(), "node", m.NodeName, "cluster", m.ClusterName,
				"roles", m.Roles.String(), "address", first(m.Address), "docker", m.Docker.ServerVersion, "registers", register)
		}
		return m, err
	}
	return records.Machine{}, fmt.Errorf("store machine %s: it comes and goes", asked.Key())
}

// cleaned says that a machine that is being removed is one whose host has to be reached for that: it has something of an RKE1 cluster.
func (a *Agents) cleaned(m records.Machine) bool {
	_, deployed := a.State.RKEStates.Get(string(m.Cluster()))
	return deployed && m.Leave.Uninstall
}

// credential is the hash of the credential that an agent sends; empty when it sends none.
func credential(r *http.Request) (hash string, err error) {
	const shortest, longest = 32, 256
	text := r.Header.Get(connect.CredentialHeader)
	if text == "" {
		return "", nil
	}
	if len(text) < shortest || len(text) > longest {
		return "", no(http.StatusBadRequest, "%s has %d characters; it is %d to %d long", connect.CredentialHeader, len(text), shortest, longest)
	}
	return randomid.Hash(text), nil
}

// store writes what the host says of itself, if its name is its own. A new host needs room.
func (a *Agents) store(ctx context.Context, asked records.Machine, register bool, room func() (records.Origin, error)) (records.Machine, error) {
	now := a.Now().UTC().Truncate(time.Second)
	if _, known := a.State.Machines.Get(asked.Key()); !known {
		if !register {
			return asked, no(http.StatusBadRequest, "node %s (%s) not found in cluster %s; it registers at %s", asked.NodeName, asked.Name, asked.ClusterName, connect.RegisterPath)
		}
		var err error
		if asked.Origin, err = room(); err != nil {
			return asked, err
		}
		d, err := a.State.Machines.Create(ctx, asked.Key(), created(asked, now))
		if err != nil {
			return asked, fmt.Errorf("store machine %s: %w", asked.Key(), err)
		}
		return d.Value, nil
	}
	tunnel := a.Tunnel(asked.Subject())
	var refused error
	d, err := a.State.Machines.Modify(ctx, asked.Key(), func(m records.Machine) (records.Machine, error) {
		refused = nil
		if !m.Deleting.IsZero() && !a.cleaned(m) {
			return m, gone(m.NodeName)
		}
		if why := cmp.Or(another(m, asked), elsewhere(m, asked)); why != "" && (m.Docker.CredentialHash != "" || held(m, tunnel, now)) {
			refused = no(http.StatusConflict, "another host of cluster %s is called %s already, and this one is not it: %s. Give this host another name with --node-name, "+
				"or remove the other one (drover machines rm %s)", m.ClusterName, m.NodeName, why, m.Name)
			text := fmt.Sprintf("a second host calls itself %s: %s; last refused at %s", m.NodeName, why, now.Format("2006-01-02T15:04Z"))
			if m.Refused == text {
				return m, store.ErrUnchanged
			}
			m.Refused = text
			return m, nil
		}
		return updated(m, asked, register, now), nil
	})
	if refused != nil && err == nil {
		err = refused
	}
	if _, vanished := errors.AsType[*store.NotFoundError](err); vanished {
		return asked, gone(asked.NodeName)
	}
	return d.Value, err
}

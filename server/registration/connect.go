// The endpoint where a host becomes a machine.

package registration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/forms"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/clientip"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// answerWithin is below the 60 s after which install.sh gives a registration up.
const answerWithin = 50 * time.Second

// tries bounds how often a registration starts over because the controller or a second
// registration of the same host wrote at the same time.
const tries = 20

// connection is the answer; the file that the agent connects with.
type connection struct {
	Namespace  string `json:"namespace"`
	SecretName string `json:"secretName"`
	KubeConfig string `json:"kubeConfig"`
	// TunnelURL is drover's own: where its agent opens the tunnel. The original ignores it.
	TunnelURL string `json:"tunnelURL"`
}

func (g *Registration) connect(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	answer, warnings, err := g.register(ctx, r)
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	body, err := indented(answer)
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	norman.Uncached(w.Header())
	for _, warning := range warnings {
		w.Header().Add("Warning", fmt.Sprintf("299 drover %q", warning))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(body) // #nosec G705 -- JSON for agents
}

// refuse answers with the sentence of the error; errors without one are the server's own.
func (g *Registration) refuse(w http.ResponseWriter, r *http.Request, err error) {
	answer, ok := norman.AsError(err)
	switch {
	case ok:
		g.log.Info("registration refused", "host", r.RemoteAddr, "status", answer.Status, "reason", answer.Message)
	case errors.Is(err, context.DeadlineExceeded):
		g.log.Error("registration took too long", "host", r.RemoteAddr, "error", err)
		answer = norman.Errorf(http.StatusServiceUnavailable, norman.ClusterUnavailable, "the server could not store the registration in time; try again")
		answer.RetryAfter = 5 * time.Second
	default:
		g.log.Error("registration failed", "host", r.RemoteAddr, "error", err)
		answer = norman.Errorf(http.StatusInternalServerError, norman.ServerError, "the server could not store the registration; its log says why")
	}
	g.reply.Fail(w, r, answer)
}

// register is the registration in its order: who may, what is asked, what is stored.
func (g *Registration) register(ctx context.Context, r *http.Request) (connection, []string, error) {
	to, err := g.admit(r)
	if err != nil {
		return connection{}, nil, err
	}
	asked, err := readRequest(r.Header)
	if err == nil && to.key().Fleet() {
		err = asked.FitsFleet(to.Name)
	}
	if err != nil {
		return connection{}, nil, err
	}
	server, err := g.serverURL(r)
	if err != nil {
		return connection{}, nil, err
	}
	bearer, _ := bearerToken(r)
	from := g.origin(bearer, r.RemoteAddr)
	var conflict *store.ConflictError
	var exists *store.ExistsError
	for try := range tries {
		var done registered
		done, err = g.store(ctx, to, asked, from, claim{Proof: r.Header.Get(ProofHeader), RegistrationToken: bearer, Source: from.Source})
		if errors.As(err, &conflict) || errors.As(err, &exists) {
			if err := pause(ctx, time.Duration(try+1)*5*time.Millisecond); err != nil {
				return connection{}, nil, err
			}
			continue
		}
		if err != nil {
			return connection{}, nil, err
		}
		g.log.Info("machine registered", "host", r.RemoteAddr, "machine", done.machine.Key(), "cluster", to.Name,
			"roles", done.machine.Roles.String(), "again", done.again, "applied", done.applied, "kept", done.kept)
		answer, err := g.connection(server, done)
		return answer, done.warnings(), err
	}
	return connection{}, nil, fmt.Errorf("store machine %s: others kept changing it: %w", machineName(asked.MachineID), err)
}

// pause gives the view in memory time to reach what the other writer wrote.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("store a registration: %w", ctx.Err())
	case <-time.After(d):
		return nil
	}
}

// admit finds what the bearer's registration token is for.
func (g *Registration) admit(r *http.Request) (home, error) {
	bearer, given := bearerToken(r)
	if given {
		to, err := g.homeOf(bearer)
		if err == nil && to.cluster.Spec.Docker() {
			return home{}, norman.Errorf(http.StatusConflict, norman.Conflict,
				"cluster %s is one of Docker hosts: run on the host what `drover clusters join-command %s --docker` prints", to.Name, to.Name)
		}
		if err == nil && to.imported() {
			return home{}, norman.Errorf(http.StatusConflict, norman.Conflict,
				"cluster %s is imported, so that its hosts are not this server's: apply in the cluster what `drover clusters import %s` prints", to.Name, to.Name)
		}
		if err == nil {
			return to, nil
		}
		// Only wrong tokens are counted, and a right one is never asked to wait: hosts
		// behind one address must not lock each other out.
		if wait := g.wrong.take(clientip.Of(r.RemoteAddr), wrongRate, g.now()); wait > 0 {
			e := norman.Errorf(http.StatusTooManyRequests, norman.TooManyRequests, "too many wrong registration tokens from this address; %s", err.Message)
			e.RetryAfter = wait
			return home{}, e
		}
		return home{}, err
	}
	return home{}, norman.Errorf(http.StatusUnauthorized, norman.Unauthorized,
		"no registration token: send it as \"Authorization: Bearer <token>\"")
}

// registered is what a registration left in the store.
type registered struct {
	machine       records.Machine
	token         string
	again         bool
	applied, kept []string
}

func (d registered) warnings() []string {
	var all []string
	if d.again && len(d.applied) > 0 {
		all = append(all, "changed: "+strings.Join(d.applied, "; "))
	}
	if len(d.kept) > 0 {
		all = append(all, "not changed, since a plan was delivered already: "+strings.Join(d.kept, "; "))
	}
	return all
}

// store writes the machine and its plan Secret, both or none.
func (g *Registration) store(ctx context.Context, to home, asked hostRequest, from records.Origin, by claim) (registered, error) {
	if err := g.elsewhere(to, asked.MachineID); err != nil {
		return registered{}, err
	}
	now := g.now().UTC().Truncate(time.Second)
	key := to.Namespace + "/" + machineName(asked.MachineID)
	current, again := g.state.Machines.Get(key)
	if !again {
		if err := g.room(from); err != nil {
			return registered{}, err
		}
		m := newMachine(to, asked, now)
		m.Origin = from
		token := issue(&m)
		secret := newPlanSecret(m, now)
		_, err := g.state.Store.Commit(ctx, g.state.Machines.Creating(key, m), g.state.PlanSecrets.Creating(secret.Key(), secret))
		return registered{machine: m, token: token}, err
	}
	return g.storeAgain(ctx, current, asked, by, now)
}

// storeAgain writes what becomes of a machine that registers again.
func (g *Registration) storeAgain(ctx context.Context, current store.Document[records.Machine], asked hostRequest, by claim, now time.Time) (registered, error) {
	old := current.Value
	if !old.Deleting.IsZero() {
		return registered{}, norman.Errorf(http.StatusConflict, norman.Conflict,
			"machine %s is being removed from %s since %s; register again when it is gone", old.Name, old.Home(), old.Deleting.Format(time.RFC3339))
	}
	secretKey := old.Namespace + "/" + old.PlanSecretName()
	proved, ok := g.retiring.proves(old, by)
	if _, connected := g.watching(secretKey); !ok && !now.Before(old.RejoinUntil) && (settled(old) || connected) {
		return registered{}, g.refuseClaim(ctx, current, by, now)
	}
	secret, hasSecret := g.state.PlanSecrets.Get(secretKey)
	v := weighRequest(old, len(secret.Value.Data[plans.KeyPlan]) > 0, asked)
	if v.Refused {
		return registered{}, g.record(ctx, current, v)
	}
	v.Machine.Labels = undescribe(old).Labels
	current.Value = claimed(describe(v.Machine))
	if len(v.Applied) > 0 {
		current.Value.Generation++
	}
	if proved != "" {
		// What the host has on its disk stays valid until it has used what it gets now.
		current.Value.PreviousTokenHash = proved
	}
	token := issue(&current.Value)
	ops := []store.Op{g.state.Machines.Updating(current)}
	switch {
	case !hasSecret:
		ops = append(ops, g.state.PlanSecrets.Creating(secretKey, newPlanSecret(current.Value, now)))
	case len(v.Applied) > 0:
		secret.Value = describeSecret(secret.Value, current.Value)
		ops = append(ops, g.state.PlanSecrets.Updating(secret))
	}
	_, err := g.state.Store.Commit(ctx, ops...)
	return registered{machine: current.Value, token: token, again: true, applied: v.Applied, kept: v.Kept}, err
}

// refuseClaim keeps who asked for the machine's place, and is the refusal.
func (g *Registration) refuseClaim(ctx context.Context, current store.Document[records.Machine], by claim, now time.Time) error {
	next, news := refuseClaim(current.Value, by, now)
	if news {
		current.Value = next
		if _, err := g.state.Machines.Update(ctx, current); err != nil {
			return fmt.Errorf("store who asked for the place of machine %s: %w", current.Key, err)
		}
	}
	return norman.Errorf(http.StatusConflict, norman.Conflict, "%s", refusal(next))
}

// AllowRejoin lets one registration have the machine's place without its token, for a while. Errors are 409 and the store's.
func (g *Registration) AllowRejoin(ctx context.Context, key string) (store.Document[records.Machine], error) {
	return g.state.Machines.Modify(ctx, key, func(m records.Machine) (records.Machine, error) {
		switch {
		case m.Docker != nil:
			return m, norman.Errorf(http.StatusConflict, norman.Conflict,
				"machine %s is a Docker host, which is known by a credential of its own: remove it (drover machines rm %s) and start its agent again", m.Name, m.Name)
		case !m.Deleting.IsZero():
			return m, norman.Errorf(http.StatusConflict, norman.Conflict, "machine %s is being removed; its host may join as a new one when it is gone", m.Name)
		}
		m.RejoinUntil = g.now().UTC().Truncate(time.Second).Add(rejoinLasts)
		return m, nil
	})
}

// record keeps what was refused where the machine's owner sees it, and is the refusal.
func (g *Registration) record(ctx context.Context, current store.Document[records.Machine], v requestVerdict) error {
	if current.Value.Refused != v.Machine.Refused {
		current.Value.Refused = v.Machine.Refused
		if _, err := g.state.Machines.Update(ctx, current); err != nil {
			return fmt.Errorf("store what was refused of machine %s: %w", current.Key, err)
		}
	}
	m := current.Value
	return norman.Errorf(http.StatusConflict, norman.Conflict,
		"machine %s of %s has a plan already and keeps what it is; refused: %s. Register with its roles (%s), or remove the machine, "+
			"run rancher-system-agent-uninstall.sh on the host and register again", m.Name, m.Home(), strings.Join(v.Kept, "; "), m.Roles)
}

// elsewhere refuses a host that is a machine of another cluster or fleet already.
func (g *Registration) elsewhere(to home, machineID string) error {
	name := machineName(machineID)
	for _, d := range g.state.MachinesByHost.Find(machineID) {
		m := d.Value
		if m.ClusterID == to.id {
			continue
		}
		return norman.Errorf(http.StatusConflict, norman.Conflict,
			"this host is machine %s of %s already and cannot join %s too; remove it there (drover machines rm %s), "+
				"run rancher-system-agent-uninstall.sh on it, and register again", m.Name, m.Home(), to, m.Name)
	}
	if m, ok := g.state.Machines.Get(to.Namespace + "/" + name); ok && m.Value.MachineID != machineID {
		return norman.Errorf(http.StatusConflict, norman.Conflict,
			"machine name %s is taken by a host with another machine id; remove the file cattle-id on this host and register again", name)
	}
	return nil
}

// serverURL is where the agent finds this server: the setting, or the address that the
// host used, which is known to work for it.
func (g *Registration) serverURL(r *http.Request) (string, error) {
	if url := g.settings.ServerURL(); url != "" {
		return url, nil
	}
	if !forms.Host(r.Host) {
		return "", norman.Errorf(http.StatusBadRequest, norman.InvalidFormat,
			"header Host: %.80q is not a valid host name, and setting server-url is empty", r.Host)
	}
	return "https://" + r.Host, nil
}

func (g *Registration) connection(server string, done registered) (connection, error) {
	kubeConfig, err := g.kubeConfigs.of(server, g.settings.CACerts(), done.token)
	if err != nil {
		return connection{}, err
	}
	return connection{
		Namespace:  done.machine.Namespace,
		SecretName: done.machine.PlanSecretName(),
		KubeConfig: kubeConfig,
		TunnelURL:  "wss" + strings.TrimPrefix(server, "https") + "/v3/connect/machine",
	}, nil
}

func indented(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the answer to a registration: %w", err)
	}
	return append(b, '\n'), nil
}

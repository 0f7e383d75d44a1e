// Who there is: people, directories, machines, and what each may do.

package server

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/directories/logins"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/quotas"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/registration"
)

// identity is who calls: people, by tokens and directories, and machines.
type identity struct {
	auth        *auth.Auth
	machines    *registration.Tokens
	people      *people.People
	directories *logins.Desk
}

// newIdentity makes the first administrator when there is none.
func newIdentity(ctx context.Context, d *data) (*identity, error) {
	i := &identity{auth: auth.New(d.state, d.Now, d.Logger), machines: registration.NewTokens(d.state)}
	i.auth.MaxTokens = quotas.New(d.state, d.settings).TokensPerPerson
	i.auth.Uses.Rest = func() time.Duration { return d.settings.Minutes("auth-user-session-idle-ttl-minutes") }
	if err := i.bootstrap(ctx, d); err != nil {
		return nil, err
	}
	secret, err := d.shared(ctx, secretLogins, func() (string, error) { return randomid.Secret(), nil })
	if err != nil {
		return nil, err
	}
	i.people = &people.People{State: d.state, Auth: i.auth, Now: d.Now, Log: d.Logger}
	i.directories, err = logins.New(logins.Options{State: d.state, Auth: i.auth, People: i.people, Settings: d.settings, Secret: secret, Outgoing: d.outgoing, Now: d.Now, Logger: d.Logger})
	return i, err
}

func (i *identity) bootstrap(ctx context.Context, d *data) error {
	tokenFile := filepath.Join(d.DataDir, AdminTokenFile)
	generated, err := i.auth.Bootstrap(ctx, d.BootstrapPassword, tokenFile)
	if err != nil {
		return fmt.Errorf("make the first administrator: %w", err)
	}
	fmt.Fprintf(d.Out, "drover %s serves %s\n", drover.Version, d.settings.ServerURL())
	if generated != "" {
		fmt.Fprintf(d.Out, "first login: user admin, password %s (shown only now)\n", generated)
	}
	local := []byte(d.names.local() + "\n")
	if err := os.WriteFile(filepath.Join(d.DataDir, LocalURLFile), local, 0o644); err != nil { // #nosec G306 -- an address, for everybody on the host
		return fmt.Errorf("write the server's local address: %w", err)
	}
	fmt.Fprintf(d.Out, "on this host, drover's commands log in by %s\n", tokenFile)
	return nil
}

// until calls end once the credential of a request is no longer valid, until stop is called:
// a machine's token, or that of a person.
func (i *identity) until(r *http.Request, end func()) (stop func()) {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); registration.IsMachineToken(token) {
		return i.machines.Until(token, end)
	}
	who, err := i.auth.Authenticate(r)
	if err != nil {
		end()
		return func() {}
	}
	return i.auth.Until(who, nil, end)
}

// oldTokens forgets tokens that ended a while ago; people still see them until then.
func (i *identity) oldTokens() reconcile.Worker {
	const every, keep = time.Hour, 7 * 24 * time.Hour
	return reconcile.Worker{
		Name: "old-tokens", Title: "forgets tokens that ended a week ago", Resync: every,
		Reconcile: func(ctx context.Context, _ string) (reconcile.Result, error) {
			return reconcile.Result{}, i.auth.Purge(ctx, keep)
		},
	}
}

// Package state is the one list of what the server keeps: each collection with its
// type, its name in the store and whether it is encrypted at rest.
package state

import (
	"context"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// State is the open store with its collections.
type State struct {
	Store *store.Store

	// Clusters are keyed "<namespace>/<name>", as are the next but for the comment.
	Clusters *store.Collection[records.Cluster]
	// ClusterSecrets are encrypted and have the cluster's key.
	ClusterSecrets *store.Collection[records.ClusterSecrets]
	// RegistrationTokens are encrypted and keyed "<cluster id>/<name>".
	RegistrationTokens *store.Collection[records.RegistrationToken]
	// Machines are keyed "<namespace>/custom-…", Docker hosts "<cluster id>/m-…".
	Machines *store.Collection[records.Machine]
	// PlanSecrets are encrypted and keyed "<namespace>/custom-…-machine-plan".
	PlanSecrets *store.Collection[records.PlanSecret]
	// NodeConfigs are encrypted and have the key of a Docker host's machine.
	NodeConfigs *store.Collection[records.NodeConfig]
	// Users are encrypted and keyed by ID.
	Users *store.Collection[records.User]
	// Tokens are encrypted and keyed by name.
	Tokens *store.Collection[records.Token]
	// Settings are keyed by name.
	Settings *store.Collection[records.Setting]
	// Replicas are the servers that run, keyed by ID; they end with their lease.
	Replicas *store.Collection[records.Replica]
	// Connections are the hosts' tunnels, keyed "<subject>|<replica>"; they end with their server's lease.
	Connections *store.Collection[records.Connection]
	// ServerSecrets are encrypted and keyed by name.
	ServerSecrets *store.Collection[records.ServerSecret]
}

// Open opens the store with all collections. The names and which are sensitive are
// part of the data's schema: to change one is a migration.
func Open(ctx context.Context, o store.Options) (*State, error) {
	s := &State{
		Clusters:           store.NewCollection[records.Cluster]("clusters", false),
		ClusterSecrets:     store.NewCollection[records.ClusterSecrets]("clustersecrets", true),
		RegistrationTokens: store.NewCollection[records.RegistrationToken]("registrationtokens", true),
		Machines:           store.NewCollection[records.Machine]("machines", false),
		PlanSecrets:        store.NewCollection[records.PlanSecret]("plansecrets", true),
		NodeConfigs:        store.NewCollection[records.NodeConfig]("nodeconfigs", true),
		Users:              store.NewCollection[records.User]("users", true),
		Tokens:             store.NewCollection[records.Token]("tokens", true),
		Settings:           store.NewCollection[records.Setting]("settings", false),
		Replicas:           store.NewCollection[records.Replica]("replicas", false),
		Connections:        store.NewCollection[records.Connection]("connections", false),
		ServerSecrets:      store.NewCollection[records.ServerSecret]("serversecrets", true),
	}
	var err error
	s.Store, err = store.Open(ctx, o, s.Clusters, s.ClusterSecrets, s.RegistrationTokens, s.Machines,
		s.PlanSecrets, s.NodeConfigs, s.Users, s.Tokens, s.Settings, s.Replicas, s.Connections, s.ServerSecrets)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Close closes the store.
func (s *State) Close() error { return s.Store.Close() }

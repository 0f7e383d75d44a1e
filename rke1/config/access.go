package config

import (
	"slices"
	"strings"
)

// access.go is about who may use the API server, and how it knows them.

// Authentication is how people are known: Strategy is x509, or x509|webhook.
type Authentication struct {
	Strategy string `yaml:"strategy,omitempty" json:"strategy,omitempty"`
	// SANs are further names and addresses of the API server's certificate, in their order.
	SANs    []string `yaml:"sans,omitempty" json:"sans,omitempty"`
	Webhook *Webhook `yaml:"webhook,omitempty" json:"webhook,omitempty"`
}

// Webhook is the webhook of the strategy of that name.
type Webhook struct {
	ConfigFile   string `yaml:"config_file,omitempty" json:"configFile,omitempty"`     // the text of a kubeconfig
	CacheTimeout string `yaml:"cache_timeout,omitempty" json:"cacheTimeout,omitempty"` // a duration such as 5s
}

// Authorization is rbac or none.
type Authorization struct {
	Mode    string            `yaml:"mode,omitempty" json:"mode,omitempty"`
	Options map[string]string `yaml:"options,omitempty" json:"options,omitempty"`
}

// Uses says whether the strategy has a part, such as webhook.
func (a *Authentication) Uses(part string) bool {
	return slices.Contains(a.Parts(), part)
}

// Parts are the parts of the strategy, in lower case.
func (a *Authentication) Parts() []string {
	parts := strings.Split(a.Strategy, "|")
	for i := range parts {
		parts[i] = strings.ToLower(strings.TrimSpace(parts[i]))
	}
	return parts
}

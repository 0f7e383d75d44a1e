package config

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// kubernetes.go has the types of Kubernetes that stand in a config, under their own names in
// cluster.yml too. They are written out here because the texts of the files on hosts are made
// of them, byte for byte, and because this package must be small enough for the node agent.

// TypeMeta is the kind of an object.
type TypeMeta struct {
	Kind       string `yaml:"kind,omitempty" json:"kind,omitempty"`
	APIVersion string `yaml:"apiVersion,omitempty" json:"apiVersion,omitempty"`
}

// EncryptionConfiguration is that of apiserver.config.k8s.io/v1.
type EncryptionConfiguration struct {
	TypeMeta  `yaml:",inline"`
	Resources []EncryptedResources `yaml:"resources" json:"resources"`
}

// EncryptedResources are resources and the ways in which they are encrypted: the first one
// writes, all read.
type EncryptedResources struct {
	Resources []string             `yaml:"resources" json:"resources"`
	Providers []EncryptionProvider `yaml:"providers" json:"providers"`
}

// EncryptionProvider is one way; one field is set.
type EncryptionProvider struct {
	AESGCM    *EncryptionKeys `yaml:"aesgcm,omitempty" json:"aesgcm,omitempty"`
	AESCBC    *EncryptionKeys `yaml:"aescbc,omitempty" json:"aescbc,omitempty"`
	Secretbox *EncryptionKeys `yaml:"secretbox,omitempty" json:"secretbox,omitempty"`
	Identity  *struct{}       `yaml:"identity,omitempty" json:"identity,omitempty"`
	KMS       *KMS            `yaml:"kms,omitempty" json:"kms,omitempty"`
}

// EncryptionKeys are keys, the first of which encrypts.
type EncryptionKeys struct {
	Keys []EncryptionKey `yaml:"keys" json:"keys"`
}

// EncryptionKey is a key; Secret is base64.
type EncryptionKey struct {
	Name   string `yaml:"name" json:"name"`
	Secret string `yaml:"secret" json:"secret"`
}

// KMS is a key service on the host.
type KMS struct {
	APIVersion string `yaml:"apiVersion" json:"apiVersion"`
	Name       string `yaml:"name" json:"name"`
	CacheSize  *int32 `yaml:"cachesize,omitempty" json:"cachesize,omitempty"`
	Endpoint   string `yaml:"endpoint" json:"endpoint"`
	Timeout    string `yaml:"timeout,omitempty" json:"timeout,omitempty"`
}

// AdmissionConfiguration is that of apiserver.config.k8s.io/v1.
type AdmissionConfiguration struct {
	TypeMeta `yaml:",inline"`
	Plugins  []AdmissionPlugin `yaml:"plugins" json:"plugins"`
}

// AdmissionPlugin is one plugin with its configuration, inline or in a file on the host.
type AdmissionPlugin struct {
	Name          string         `yaml:"name" json:"name"`
	Path          string         `yaml:"path" json:"path"`
	Configuration map[string]any `yaml:"configuration,omitempty" json:"configuration"`
}

// EventRateLimits is the Configuration of eventratelimit.admission.k8s.io/v1alpha1.
type EventRateLimits struct {
	TypeMeta `yaml:",inline"`
	Limits   []EventLimit `yaml:"limits" json:"limits"`
}

// EventLimit is one limit.
type EventLimit struct {
	Type      string `yaml:"type" json:"type"` // Server, Namespace, User, SourceAndObject
	QPS       int32  `yaml:"qps" json:"qps"`
	Burst     int32  `yaml:"burst" json:"burst"`
	CacheSize int32  `yaml:"cacheSize,omitempty" json:"cacheSize,omitempty"`
}

// AuditPolicy is the Policy of audit.k8s.io/v1.
type AuditPolicy struct {
	TypeMeta          `yaml:",inline"`
	Metadata          PolicyMetadata `yaml:"metadata" json:"metadata"`
	Rules             []PolicyRule   `yaml:"rules" json:"rules"`
	OmitStages        []string       `yaml:"omitStages,omitempty" json:"omitStages,omitempty"`
	OmitManagedFields bool           `yaml:"omitManagedFields,omitempty" json:"omitManagedFields,omitempty"`
}

// PolicyMetadata is the metadata of a policy, of which a null is always written.
type PolicyMetadata struct {
	Name              string            `yaml:"name,omitempty" json:"name,omitempty"`
	CreationTimestamp *string           `yaml:"creationTimestamp" json:"creationTimestamp"`
	Labels            map[string]string `yaml:"labels,omitempty" json:"labels,omitempty"`
	Annotations       map[string]string `yaml:"annotations,omitempty" json:"annotations,omitempty"`
}

// PolicyRule is one rule.
type PolicyRule struct {
	Level             string           `yaml:"level" json:"level"`
	Users             []string         `yaml:"users,omitempty" json:"users,omitempty"`
	UserGroups        []string         `yaml:"userGroups,omitempty" json:"userGroups,omitempty"`
	Verbs             []string         `yaml:"verbs,omitempty" json:"verbs,omitempty"`
	Resources         []GroupResources `yaml:"resources,omitempty" json:"resources,omitempty"`
	Namespaces        []string         `yaml:"namespaces,omitempty" json:"namespaces,omitempty"`
	NonResourceURLs   []string         `yaml:"nonResourceURLs,omitempty" json:"nonResourceURLs,omitempty"`
	OmitStages        []string         `yaml:"omitStages,omitempty" json:"omitStages,omitempty"`
	OmitManagedFields *bool            `yaml:"omitManagedFields,omitempty" json:"omitManagedFields,omitempty"`
}

// GroupResources are resources of one API group.
type GroupResources struct {
	Group         string   `yaml:"group,omitempty" json:"group,omitempty"`
	Resources     []string `yaml:"resources,omitempty" json:"resources,omitempty"`
	ResourceNames []string `yaml:"resourceNames,omitempty" json:"resourceNames,omitempty"`
}

// Toleration is a pod's toleration. In cluster.yml its last key is in lower case.
type Toleration struct {
	Key               string `yaml:"key,omitempty" json:"key,omitempty"`
	Operator          string `yaml:"operator,omitempty" json:"operator,omitempty"`
	Value             string `yaml:"value,omitempty" json:"value,omitempty"`
	Effect            string `yaml:"effect,omitempty" json:"effect,omitempty"`
	TolerationSeconds *int64 `yaml:"tolerationseconds,omitempty" json:"tolerationSeconds,omitempty"`
}

// DaemonSetStrategy is how a DaemonSet is updated: RollingUpdate or OnDelete.
type DaemonSetStrategy struct {
	Strategy      string         `yaml:"strategy,omitempty" json:"strategy,omitempty"`
	RollingUpdate *RollingUpdate `yaml:"rollingUpdate,omitempty" json:"rollingUpdate,omitempty"`
}

// DeploymentStrategy is how a Deployment is updated: RollingUpdate or Recreate.
type DeploymentStrategy struct {
	Strategy      string         `yaml:"strategy,omitempty" json:"strategy,omitempty"`
	RollingUpdate *RollingUpdate `yaml:"rollingUpdate,omitempty" json:"rollingUpdate,omitempty"`
}

// RollingUpdate bounds a rolling update.
type RollingUpdate struct {
	MaxUnavailable *IntOrText `yaml:"maxUnavailable,omitempty" json:"maxUnavailable,omitempty"`
	MaxSurge       *IntOrText `yaml:"maxSurge,omitempty" json:"maxSurge,omitempty"`
}

// IntOrText is a number, or a text such as 25%. It is a number where Text is "".
type IntOrText struct {
	Int  int32
	Text string
}

// MarshalJSON writes a number or a string. Its error is that of encoding/json.
func (v IntOrText) MarshalJSON() ([]byte, error) {
	if v.Text != "" {
		return json.Marshal(v.Text)
	}
	return strconv.AppendInt(nil, int64(v.Int), 10), nil
}

// UnmarshalJSON reads a number of 32 bits or a string that is not empty. Another value is an error.
func (v *IntOrText) UnmarshalJSON(b []byte) error {
	var value any
	if err := json.Unmarshal(b, &value); err != nil {
		return err
	}
	switch value := value.(type) {
	case string:
		if value != "" {
			*v = IntOrText{Text: value}
			return nil
		}
	case float64:
		if value == math.Trunc(value) && math.Abs(value) <= math.MaxInt32 {
			*v = IntOrText{Int: int32(value)}
			return nil
		}
	}
	return fmt.Errorf("%s is neither a whole number nor a text", b)
}

// MarshalYAML writes a number or a string. It returns no error.
func (v IntOrText) MarshalYAML() (any, error) {
	if v.Text != "" {
		return v.Text, nil
	}
	return v.Int, nil
}

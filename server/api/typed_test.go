package api_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The types below are the fields' own types as the contract of the management API has them
// (rancher/rancher pkg/client/generated/management/v3): a typed client fails on a whole
// list when one of them differs.

type typedResource struct {
	ID, Type, BaseType, Name, UUID, State, Transitioning, TransitioningMessage string
	Links, Actions, Labels, Annotations                                        map[string]string
	Created                                                                    *time.Time
	CreatedTS                                                                  int64
	CreatorID                                                                  *string `json:"creatorId"`
}

type typedCondition struct {
	Type, Status, Reason, Message      string
	LastUpdateTime, LastTransitionTime string
}

type objectReference struct {
	APIVersion, Kind, Namespace, Name, UID string
}

type typedCluster struct {
	typedResource
	Driver, Provider, Description, APIEndpoint, FleetWorkspaceName string
	Internal                                                       bool
	NodeCount                                                      int64
	Conditions                                                     []typedCondition
	Capacity, Allocatable, Requested, Limits                       map[string]string
	Version                                                        *struct{ GitVersion, Major, Minor, Platform string }
	Info                                                           *struct {
		KubernetesVersion      string
		NodeCount              int64
		ProvisioningClusterRef *objectReference
	}
}

// typedProvisioned is a cluster of /v1.
type typedProvisioned struct {
	ID, Type string
	Metadata struct{ Name, Namespace, ResourceVersion string }
	Spec     struct {
		KubernetesVersion string
		RKEConfig         *struct {
			UpgradeStrategy struct{ WorkerConcurrency string }
		}
	}
	Status struct {
		ClusterName string
		Ready       bool
		Conditions  []typedCondition
	}
}

type typedNode struct {
	typedResource
	ClusterID                                                           string `json:"clusterId"`
	NodeName, RequestedHostname, Hostname, IPAddress, ExternalIPAddress string
	Etcd, ControlPlane, Worker, Imported, Unschedulable                 bool
	NodePoolID, NodeTemplateID                                          *string
	AppliedNodeVersion                                                  int64
	Conditions                                                          []typedCondition
	Capacity, Allocatable, Requested                                    map[string]string
	CustomConfig                                                        *struct {
		Address, InternalAddress, DockerSocket string
		Label                                  map[string]string
		Taints                                 []any
	}
	Info *struct {
		OS         *struct{ OperatingSystem, DockerVersion, KernelVersion string }
		Kubernetes *struct{ KubeletVersion, KubeProxyVersion string }
		CPU        *struct{ Count int64 }
		Memory     *struct{ MemTotalKiB int64 }
	}
}

type typedToken struct {
	typedResource
	Token, Description, ExpiresAt, UserPrincipal, AuthProvider string
	UserID, ClusterID                                          *string
	TTL                                                        int64
	Current, Enabled, Expired, IsDerived                       bool
}

type typedSystemImage struct {
	typedResource
	SystemImages *struct{ Etcd, Kubernetes, NginxProxy, CertDownloader, CalicoFlexVol, CoreDNSAutoscaler string }
}

type typedUser struct {
	typedResource
	Username, Description           string
	Enabled, MustChangePassword, Me bool
	PrincipalIDs                    []string `json:"principalIds"`
}

type typedSetting struct {
	typedResource
	Value, Default, Source string
	Customized             bool
}

type typedRegistrationToken struct {
	typedResource
	ClusterID                                                                      string `json:"clusterId"`
	NamespaceID                                                                    *string
	Token, Command, InsecureCommand, NodeCommand, InsecureNodeCommand, ManifestURL string
	WindowsNodeCommand, InsecureWindowsNodeCommand, ExpiresAt                      string
}

type typedProject struct {
	typedResource
	ClusterID, Description, NamespaceID, BackingNamespace string
	Conditions                                            []typedCondition
}

type typedSchema struct {
	ID, Type, PluralName               string
	CollectionMethods, ResourceMethods []string
	Links                              map[string]string
	ResourceFields                     map[string]struct {
		Type                               string
		Create, Update, Required, Nullable bool
		Options                            []string
	}
}

type typedCollection[T any] struct {
	Type, ResourceType          string
	Links, CreateTypes, Actions map[string]string
	Pagination                  *struct{ Limit, Total *int64 }
	Sort                        *struct {
		Order string
		Links map[string]string
	}
	Data []T
}

// typedState is metadata.state of /v1.
type typedObject struct {
	ID, Type, APIVersion, Kind string
	Links, Actions             map[string]string
	Metadata                   struct {
		Name, Namespace, UID, ResourceVersion string
		Generation                            int64
		CreationTimestamp                     time.Time
		Labels, Annotations                   map[string]string
		State                                 struct {
			Name, Message        string
			Error, Transitioning bool
		}
	}
}

type typedProvisioningCluster struct {
	typedObject
	Spec struct {
		KubernetesVersion string
		RKEConfig         *struct{ MachineGlobalConfig map[string]any }
	}
	Status struct {
		ClusterName, FleetWorkspaceName, ClientSecretName string
		Ready, AgentDeployed                              bool
		ObservedGeneration                                int64
		Conditions                                        []typedCondition
	}
}

type typedMachine struct {
	typedObject
	Spec struct {
		ClusterName, ProviderID string
		InfrastructureRef       objectReference
		Bootstrap               struct {
			ConfigRef      objectReference
			DataSecretName string
		}
	}
	Status struct {
		Phase     string
		NodeRef   *objectReference
		Addresses []struct{ Type, Address string }
		NodeInfo  *struct{ KubeletVersion, OperatingSystem string }
	}
}

type typedManagementCluster struct {
	typedObject
	Spec struct {
		DisplayName, Description, FleetWorkspaceName string
		Internal                                     bool
	}
	Status struct {
		Driver, Provider, APIEndpoint string
		NodeCount                     int64
		Version                       *struct{ GitVersion string }
		Conditions                    []typedCondition
	}
}

type typedArg struct {
	Type    string
	Default any
	Options []string
}

type typedRelease struct {
	ID, Type, Version     string
	Links                 map[string]string
	ServerArgs, AgentArgs map[string]typedArg
	Charts                map[string]struct{ Repo, Version string }
}

// TestTypedClients decodes every golden file of /v3 and /v1 as a typed client does.
func TestTypedClients(t *testing.T) {
	into := map[string]any{
		"cluster-active": &typedCluster{}, "cluster-pending": &typedCluster{}, "node-active": &typedNode{}, "node-failed": &typedNode{},
		"projects": &typedCollection[typedProject]{}, "registration-token": &typedRegistrationToken{}, "setting": &typedSetting{},
		"token": &typedToken{}, "user": &typedUser{}, "nodepools": &typedCollection[typedResource]{}, "schema-setting": &typedSchema{},
		"v1-schemas": &typedCollection[typedSchema]{}, "v1-cluster": &typedProvisioningCluster{}, "v1-machine": &typedMachine{},
		"v1-management-cluster": &typedManagementCluster{}, "v1-counts": &typedCollection[struct {
			ID, Type string
			Counts   map[string]struct {
				Revision string
				Summary  struct {
					Count  int
					States map[string]int
				}
			}
		}]{},
		"root": &struct{ Links map[string]string }{}, "v1-root": &struct{ Links map[string]string }{},
		"roots": &typedCollection[struct{ Links map[string]string }]{}, "public-root": &struct{ Links map[string]string }{},
		"public-providers": &typedCollection[typedResource]{}, "plain-providers": &typedCollection[typedResource]{},
		"release": &typedRelease{},
		"error": &struct {
			Type, Code, Message string
			Status              int
		}{},
	}
	files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{"machine-detail": true} // and drover-*, which are decoded into views by the command line
	for _, file := range files {
		name := filepath.Base(file[:len(file)-len(".json")])
		target, ok := into[name]
		if !ok {
			if !own[name] && !bytes.HasPrefix([]byte(name), []byte("drover-")) {
				t.Errorf("%s is decoded by nobody", name)
			}
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, target); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if c, ok := into["cluster-active"].(*typedCluster); !ok || c.Info == nil || c.Info.ProvisioningClusterRef == nil || c.Info.ProvisioningClusterRef.Name != "harbour" {
		t.Error("the cluster does not refer to its document")
	}
	if u, ok := into["user"].(*typedUser); !ok || !u.Me {
		t.Error("the caller's own user is not marked")
	}
}

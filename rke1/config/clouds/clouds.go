// Package clouds has the configuration of the clouds that hosts may be in, as it stands in a
// cluster.yml. The fields are those of each cloud's own configuration file, under its names;
// nothing here knows more of them. Source: the documented options of RKE's cloud_provider.
package clouds

// Harvester is the text of Harvester's file.
type Harvester struct {
	CloudConfig string `yaml:"cloud_config,omitempty" json:"cloudConfig"`
}

// AWS is the cloud of Amazon.
type AWS struct {
	Global          AWSGlobal             `yaml:"global,omitempty" json:"global"`
	ServiceOverride map[string]AWSService `yaml:"service_override,omitempty" json:"serviceOverride,omitempty"`
}

// AWSGlobal is the section Global.
type AWSGlobal struct {
	Zone                        string `yaml:"zone,omitempty" json:"zone"`
	VPC                         string `yaml:"vpc,omitempty" json:"vpc"`
	SubnetID                    string `yaml:"subnet-id,omitempty" json:"subnet-id"`
	RouteTableID                string `yaml:"routetable-id,omitempty" json:"routetable-id"`
	RoleARN                     string `yaml:"role-arn,omitempty" json:"role-arn"`
	ClusterTag                  string `yaml:"kubernetes-cluster-tag,omitempty" json:"kubernetes-cluster-tag"`
	ClusterID                   string `yaml:"kubernetes-cluster-id,omitempty" json:"kubernetes-cluster-id"`
	DisableSecurityGroupIngress bool   `yaml:"disable-security-group-ingress,omitempty" json:"disable-security-group-ingress"`
	ELBSecurityGroup            string `yaml:"elb-security-group,omitempty" json:"elb-security-group"`
	DisableStrictZoneCheck      bool   `yaml:"disable-strict-zone-check,omitempty" json:"disable-strict-zone-check"`
}

// AWSService is another address of one of Amazon's services.
type AWSService struct {
	Service       string `yaml:"service,omitempty" json:"service"`
	Region        string `yaml:"region,omitempty" json:"region"`
	URL           string `yaml:"url,omitempty" json:"url"`
	SigningRegion string `yaml:"signing-region,omitempty" json:"signing-region"`
	SigningMethod string `yaml:"signing-method,omitempty" json:"signing-method"`
	SigningName   string `yaml:"signing-name,omitempty" json:"signing-name"`
}

// Azure is the cloud of Microsoft.
type Azure struct {
	Cloud                        string `yaml:"cloud,omitempty" json:"cloud"`
	TenantID                     string `yaml:"tenantId,omitempty" json:"tenantId"`
	SubscriptionID               string `yaml:"subscriptionId,omitempty" json:"subscriptionId"`
	ResourceGroup                string `yaml:"resourceGroup,omitempty" json:"resourceGroup"`
	Location                     string `yaml:"location,omitempty" json:"location"`
	VnetName                     string `yaml:"vnetName,omitempty" json:"vnetName"`
	VnetResourceGroup            string `yaml:"vnetResourceGroup,omitempty" json:"vnetResourceGroup"`
	SubnetName                   string `yaml:"subnetName,omitempty" json:"subnetName"`
	SecurityGroupName            string `yaml:"securityGroupName,omitempty" json:"securityGroupName"`
	SecurityGroupResourceGroup   string `yaml:"securityGroupResourceGroup,omitempty" json:"securityGroupResourceGroup,omitempty"`
	RouteTableName               string `yaml:"routeTableName,omitempty" json:"routeTableName"`
	PrimaryAvailabilitySetName   string `yaml:"primaryAvailabilitySetName,omitempty" json:"primaryAvailabilitySetName"`
	VMType                       string `yaml:"vmType,omitempty" json:"vmType"`
	PrimaryScaleSetName          string `yaml:"primaryScaleSetName,omitempty" json:"primaryScaleSetName"`
	AADClientID                  string `yaml:"aadClientId,omitempty" json:"aadClientId"`
	AADClientSecret              string `yaml:"aadClientSecret,omitempty" json:"aadClientSecret"`
	AADClientCertPath            string `yaml:"aadClientCertPath,omitempty" json:"aadClientCertPath"`
	AADClientCertPassword        string `yaml:"aadClientCertPassword,omitempty" json:"aadClientCertPassword"`
	Backoff                      bool   `yaml:"cloudProviderBackoff,omitempty" json:"cloudProviderBackoff"`
	BackoffRetries               int    `yaml:"cloudProviderBackoffRetries,omitempty" json:"cloudProviderBackoffRetries"`
	BackoffExponent              int    `yaml:"cloudProviderBackoffExponent,omitempty" json:"cloudProviderBackoffExponent"`
	BackoffDuration              int    `yaml:"cloudProviderBackoffDuration,omitempty" json:"cloudProviderBackoffDuration"`
	BackoffJitter                int    `yaml:"cloudProviderBackoffJitter,omitempty" json:"cloudProviderBackoffJitter"`
	RateLimit                    bool   `yaml:"cloudProviderRateLimit,omitempty" json:"cloudProviderRateLimit"`
	RateLimitQPS                 int    `yaml:"cloudProviderRateLimitQPS,omitempty" json:"cloudProviderRateLimitQPS"`
	RateLimitBucket              int    `yaml:"cloudProviderRateLimitBucket,omitempty" json:"cloudProviderRateLimitBucket"`
	UseInstanceMetadata          bool   `yaml:"useInstanceMetadata,omitempty" json:"useInstanceMetadata"`
	UseManagedIdentityExtension  bool   `yaml:"useManagedIdentityExtension,omitempty" json:"useManagedIdentityExtension"`
	UserAssignedIdentityID       string `yaml:"userAssignedIdentityID,omitempty" json:"userAssignedIdentityID,omitempty"`
	MaximumLoadBalancerRuleCount int    `yaml:"maximumLoadBalancerRuleCount,omitempty" json:"maximumLoadBalancerRuleCount"`
	LoadBalancerSku              string `yaml:"loadBalancerSku,omitempty" json:"loadBalancerSku,omitempty"`
	ExcludeMasterFromStandardLB  *bool  `yaml:"excludeMasterFromStandardLB,omitempty" json:"excludeMasterFromStandardLB,omitempty"`
	Tags                         string `yaml:"tags,omitempty" json:"tags,omitempty"`
}

// OpenStack is an OpenStack.
type OpenStack struct {
	Global       OpenStackGlobal       `yaml:"global,omitempty" json:"global"`
	LoadBalancer OpenStackLoadBalancer `yaml:"load_balancer,omitempty" json:"loadBalancer"`
	BlockStorage OpenStackBlockStorage `yaml:"block_storage,omitempty" json:"blockStorage"`
	Route        OpenStackRoute        `yaml:"route,omitempty" json:"route"`
	Metadata     OpenStackMetadata     `yaml:"metadata,omitempty" json:"metadata"`
}

// OpenStackGlobal is the section Global.
type OpenStackGlobal struct {
	AuthURL    string `yaml:"auth-url,omitempty" json:"auth-url"`
	Username   string `yaml:"username,omitempty" json:"username"`
	UserID     string `yaml:"user-id,omitempty" json:"user-id"`
	Password   string `yaml:"password,omitempty" json:"password"`
	TenantID   string `yaml:"tenant-id,omitempty" json:"tenant-id"`
	TenantName string `yaml:"tenant-name,omitempty" json:"tenant-name"`
	TrustID    string `yaml:"trust-id,omitempty" json:"trust-id"`
	DomainID   string `yaml:"domain-id,omitempty" json:"domain-id"`
	DomainName string `yaml:"domain-name,omitempty" json:"domain-name"`
	Region     string `yaml:"region,omitempty" json:"region"`
	CAFile     string `yaml:"ca-file,omitempty" json:"ca-file"`
}

// OpenStackLoadBalancer is the section LoadBalancer.
type OpenStackLoadBalancer struct {
	Version              string `yaml:"lb-version,omitempty" json:"lb-version"`
	UseOctavia           bool   `yaml:"use-octavia,omitempty" json:"use-octavia"`
	SubnetID             string `yaml:"subnet-id,omitempty" json:"subnet-id"`
	FloatingNetworkID    string `yaml:"floating-network-id,omitempty" json:"floating-network-id"`
	Method               string `yaml:"lb-method,omitempty" json:"lb-method"`
	Provider             string `yaml:"lb-provider,omitempty" json:"lb-provider"`
	CreateMonitor        bool   `yaml:"create-monitor,omitempty" json:"create-monitor"`
	MonitorDelay         string `yaml:"monitor-delay,omitempty" json:"monitor-delay"`
	MonitorTimeout       string `yaml:"monitor-timeout,omitempty" json:"monitor-timeout"`
	MonitorMaxRetries    int    `yaml:"monitor-max-retries,omitempty" json:"monitor-max-retries"`
	ManageSecurityGroups bool   `yaml:"manage-security-groups,omitempty" json:"manage-security-groups"`
}

// OpenStackBlockStorage is the section BlockStorage.
type OpenStackBlockStorage struct {
	Version         string `yaml:"bs-version,omitempty" json:"bs-version"`
	TrustDevicePath bool   `yaml:"trust-device-path,omitempty" json:"trust-device-path"`
	IgnoreVolumeAZ  bool   `yaml:"ignore-volume-az,omitempty" json:"ignore-volume-az"`
}

// OpenStackRoute is the section Route.
type OpenStackRoute struct {
	RouterID string `yaml:"router-id,omitempty" json:"router-id"`
}

// OpenStackMetadata is the section Metadata.
type OpenStackMetadata struct {
	SearchOrder    string `yaml:"search-order,omitempty" json:"search-order"`
	RequestTimeout int    `yaml:"request-timeout,omitempty" json:"request-timeout"`
}

// VSphere is a vSphere.
type VSphere struct {
	Global        VSphereGlobal            `yaml:"global,omitempty" json:"global"`
	VirtualCenter map[string]VSphereCenter `yaml:"virtual_center,omitempty" json:"virtualCenter,omitempty"`
	Network       VSphereNetwork           `yaml:"network,omitempty" json:"network"`
	Disk          VSphereDisk              `yaml:"disk,omitempty" json:"disk"`
	Workspace     VSphereWorkspace         `yaml:"workspace,omitempty" json:"workspace"`
}

// VSphereGlobal is the section Global.
type VSphereGlobal struct {
	User              string `yaml:"user,omitempty" json:"user,omitempty"`
	Password          string `yaml:"password,omitempty" json:"password,omitempty"`
	Server            string `yaml:"server,omitempty" json:"server,omitempty"`
	Port              string `yaml:"port,omitempty" json:"port,omitempty"`
	Insecure          bool   `yaml:"insecure-flag,omitempty" json:"insecure-flag,omitempty"`
	Datacenter        string `yaml:"datacenter,omitempty" json:"datacenter,omitempty"`
	Datacenters       string `yaml:"datacenters,omitempty" json:"datacenters,omitempty"`
	Datastore         string `yaml:"datastore,omitempty" json:"datastore,omitempty"`
	WorkingDir        string `yaml:"working-dir,omitempty" json:"working-dir,omitempty"`
	RoundTripperCount int    `yaml:"soap-roundtrip-count,omitempty" json:"soap-roundtrip-count,omitempty"`
	VMUUID            string `yaml:"vm-uuid,omitempty" json:"vm-uuid,omitempty"`
	VMName            string `yaml:"vm-name,omitempty" json:"vm-name,omitempty"`
}

// VSphereCenter is a section VirtualCenter.
type VSphereCenter struct {
	User              string `yaml:"user,omitempty" json:"user,omitempty"`
	Password          string `yaml:"password,omitempty" json:"password,omitempty"`
	Port              string `yaml:"port,omitempty" json:"port,omitempty"`
	Datacenters       string `yaml:"datacenters,omitempty" json:"datacenters,omitempty"`
	RoundTripperCount int    `yaml:"soap-roundtrip-count,omitempty" json:"soap-roundtrip-count,omitempty"`
}

// VSphereNetwork is the section Network.
type VSphereNetwork struct {
	PublicNetwork string `yaml:"public-network,omitempty" json:"public-network,omitempty"`
}

// VSphereDisk is the section Disk.
type VSphereDisk struct {
	SCSIControllerType string `yaml:"scsicontrollertype,omitempty" json:"scsicontrollertype,omitempty"`
}

// VSphereWorkspace is the section Workspace.
type VSphereWorkspace struct {
	Server           string `yaml:"server,omitempty" json:"server,omitempty"`
	Datacenter       string `yaml:"datacenter,omitempty" json:"datacenter,omitempty"`
	Folder           string `yaml:"folder,omitempty" json:"folder,omitempty"`
	DefaultDatastore string `yaml:"default-datastore,omitempty" json:"default-datastore,omitempty"`
	ResourcePoolPath string `yaml:"resourcepool-path,omitempty" json:"resourcepool-path,omitempty"`
}

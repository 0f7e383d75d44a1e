// The table of all settings, and what each of them takes.

package settings

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/drover-project/drover/plans/forms"
	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/outgoing"
)

// spoken is the Rancher release whose API this server speaks; clients choose their
// requests by the number that server-version begins with.
const spoken = "v2.15.0"

// RightsByHand says what becomes of changes that are made by hand to the rights that the server keeps in clusters, and AgentUpdates who begins updates
// of agents.
const (
	AgentUpdates = "agent-updates"
	Automatic    = "automatic"
	RightsByHand = "rights-changed-by-hand"
	PutBack      = "put-back"
	Report       = "report"
)

// writers says who may write a setting. Each setting has one of them; the zero value is none.
type writers int

const (
	// administrators alone write what ends up on hosts or in clusters (images, registries, addresses, authorities, agents), decides
	// who gets in, how and for how long, or what of it is recorded: each of these leads to everything that an administrator may.
	administrators writers = iota + 1
	// managers are all who may change settings: what they write bounds what the server takes, or is shown.
	managers
)

// definition is a setting that exists.
type definition struct {
	name string
	// about says what it does, in Markdown, for people.
	about string
	// by says who may write it.
	by    writers
	value string // the default
	// check refuses a value with what is allowed instead; nil takes any text.
	check func(value string) (reason string)
	// readOnly is why it cannot be written; empty for those that can be written.
	readOnly string
}

// Reasons that several settings have for being read-only. That a setting which is taken and
// does nothing is worse than none holds here, too: each of them works, or says why not.
const (
	unused   = "this version of drover does nothing with it; it exists for clients that read it"
	noExpiry = "registration tokens do not expire in this version of drover; deleting a cluster's default-token makes a new one"
)

// definitions is the whole list: what drover gives a meaning to, and what clients read
// at their start and expect to find (rancher CLI, terraform provider, dashboards).
func definitions(d Defaults) []definition {
	return []definition{
		{name: "agent-image", about: "image of the node agent, in the line that Docker hosts run", by: administrators, value: "drover/rancher-agent:" + cmp.Or(d.Version, "latest"), check: image},
		{name: AgentUpdates, about: "`automatic`: agents of fleets and of clusters of k3s and RKE2 are updated to the server's release, one of them after the other and within maintenance windows; `manual`: when a person says so", by: administrators, value: "manual", check: oneOf("manual", Automatic)},
		{name: "agent-tls-mode", about: "`strict`: agents trust the pinned authority alone; `system-store`: also the authorities of their host", by: administrators, value: "strict", check: oneOf("strict", "system-store")},
		{name: audit.SettingFilter, about: "rules that leave requests out of the audit log", by: administrators, check: auditFilter},
		{name: audit.SettingLevel, about: "how much the audit log has: 0 nothing, 1 changes, ways in and refusals, 2 also what people read, 3 also the bodies of changes", by: administrators, value: "1", check: oneOf("0", "1", "2", "3")},
		{name: audit.SettingDays, about: "for how many days files of the audit log are kept", by: administrators, value: "90", check: atLeast(1)},
		{name: audit.SettingFileMiB, about: "how large a file of the audit log grows, in MiB, before the next one begins", by: administrators, value: "50", check: atLeast(1)},
		{name: audit.SettingFiles, about: "how many files of the audit log are kept", by: administrators, value: "20", check: atLeast(2)},
		{name: "auth-token-default-ttl-minutes", about: "how long an API token lasts that was asked for without an end, in minutes; 0 is for ever", by: administrators, value: "129600", check: minutes},
		{name: "auth-token-max-ttl-minutes", about: "how long an API token may last at most, in minutes; 0 is no limit", by: administrators, value: "129600", check: minutes},
		{name: "auth-user-info-max-age-seconds", about: "how old groups of people may grow before their directory is asked again, in seconds; 0 never asks", by: administrators, value: "3600", check: atLeast(0)},
		{name: "auth-user-info-resync-cron", about: "for clients that read it", by: administrators, readOnly: "directories are asked about people by auth-user-info-max-age-seconds"},
		{name: "auth-user-session-idle-ttl-minutes", about: "after how many minutes without a request a session ends; 0 is never", by: administrators, value: "960", check: atLeast(0)},
		{name: "auth-user-session-ttl-minutes", about: "how long a session lasts, in minutes; 0 is for ever", by: administrators, value: "960", check: minutes},
		{name: "cacerts", about: "PEM of the authority of the server's certificate, which hosts pin; empty for a public one", by: administrators, value: d.CACerts, readOnly: "it is the CA of the certificate that the server runs with"},
		{name: "cluster-agent", about: "which clusters get an agent inside: `imported` ones, or `all`", by: administrators, value: "imported", check: oneOf("imported", "all")},
		{name: "connections-per-source", about: "how many connections without a login one address may hold; 0 is no limit", by: managers, value: "1000", check: atLeast(0)},
		{name: "crt-default-grace-period-minutes", about: "for clients that read it", by: administrators, value: "0", readOnly: noExpiry},
		{name: "crt-default-ttl-minutes", about: "for clients that read it", by: administrators, value: "0", readOnly: noExpiry},
		{name: "engine-install-url", about: "for clients that read it", by: administrators, readOnly: unused},
		{name: "eula-agreed", about: "kept for dashboards, without an effect", by: managers},
		{name: "first-login", about: "`true` until the administrator of the first start has chosen a password", by: managers, value: "true", check: oneOf("true", "false")},
		{name: "install-uuid", about: "names this installation", by: administrators, readOnly: "it is made at the first start and names this installation from then on"},
		{name: "k8s-version", about: "for clients that read it", by: administrators, readOnly: unused},
		{name: "k8s-version-to-images", about: "for clients that read it", by: administrators, readOnly: unused},
		{name: "kubeconfig-default-token-ttl-minutes", about: "how long the token in a new kubeconfig lasts, in minutes; 0 is for ever", by: administrators, value: "43200", check: minutes},
		{name: "kubeconfig-generate-token", about: "`false`: kubeconfigs have no token, and kubectl asks the `rancher` command for one", by: administrators, value: "true", check: oneOf("true", "false")},
		{name: "kubeconfig-max-token-ttl-minutes", about: "how long the token of a kubeconfig may last at most, in minutes; 0 is no limit", by: administrators, value: "129600", check: minutes},
		{name: "no-default-admin", about: "`true`: a server without users makes no first administrator", by: administrators, value: "false", check: oneOf("true", "false")},
		{name: outgoing.Setting, about: "addresses in private networks that the server may connect to for buckets, registries and directories, in CIDR form", by: administrators, check: ranges},
		{name: "password-min-length", about: "how many characters a password has at least", by: administrators, value: "12", check: atLeast(2)},
		{name: "public-api-body-limit", about: "how large a request without a login may be", by: managers, value: "1Mi", readOnly: "the limit is built in"},
		{name: "quota-clusters", about: "clusters and fleets of all people together; 0 is no limit, as for all quotas", by: managers, value: "10000", check: atLeast(0)},
		{name: "quota-clusters-per-person", about: "clusters and fleets that one person may make", by: managers, value: "500", check: atLeast(0)},
		{name: "quota-documents-mib", about: "cluster documents, Secrets and ConfigMaps of all people together, in MiB", by: managers, value: "2048", check: between(0, 1<<20)},
		{name: "quota-documents-mib-per-person", about: "cluster documents, Secrets and ConfigMaps of one person, in MiB", by: managers, value: "64", check: between(0, 1<<20)},
		{name: "quota-machines", about: "machines of all clusters and fleets", by: managers, value: "50000", check: atLeast(0)},
		{name: "quota-machines-per-person", about: "machines of the clusters and fleets that one person made", by: managers, value: "5000", check: atLeast(0)},
		{name: "quota-operations", about: "operations that have not ended, of all people together", by: managers, value: "10000", check: atLeast(0)},
		{name: "quota-operations-per-person", about: "operations of one person that have not ended", by: managers, value: "1000", check: atLeast(0)},
		{name: "quota-tokens", about: "tokens of all people together", by: managers, value: "200000", check: atLeast(0)},
		{name: "quota-tokens-per-person", about: "tokens of one person", by: managers, value: "5000", check: atLeast(0)},
		{name: "registration-quota", about: "machines that one registration token may bring from one address; 0 is no limit", by: managers, value: "10000", check: atLeast(0)},
		{name: "registration-rate-per-minute", about: "machines a minute that one registration token may bring from one address; 0 is no limit", by: managers, value: "6000", check: atLeast(0)},
		{name: RightsByHand, about: "what becomes of rights in clusters that are changed by hand: `put-back`, or `report` alone", by: administrators, value: PutBack, check: oneOf(PutBack, Report)},
		{name: "server-image", about: "for clients that read it", by: administrators, readOnly: unused},
		{name: "server-url", about: "the address by which hosts and people reach the server, as in `https://drover.example.com:8443`", by: administrators, value: d.ServerURL, check: serverURL},
		{name: "server-version", about: "the release of Rancher whose API is served, and drover's own behind it", by: managers, value: spokenVersion(d.Version), readOnly: "it is the release that runs"},
		{name: "server-version-type", about: "for clients that read it", by: managers, value: "drover", readOnly: "it is the release that runs"},
		{name: "system-agent-install-script", about: "for clients that read it", by: administrators, readOnly: "hosts get the script of this server, from /system-agent-install.sh"},
		{name: "system-agent-installer-image", about: "prefix of the images that install k3s and RKE2; `k3s` or `rke2` and the version follow", by: administrators, value: "rancher/system-agent-installer-"},
		{name: "system-agent-version", about: "the release of the system agent that hosts get", by: administrators, value: d.Version, readOnly: "it is the release that runs"},
		{name: "system-default-registry", about: "the registry that images come from instead of Docker Hub", by: administrators, check: registry},
		{name: "telemetry-opt", about: "kept for dashboards; drover sends nothing anywhere", by: managers, value: "out", check: oneOf("in", "out", "prompt")},
		{name: "tls-min-version", about: "the oldest TLS that the server speaks", by: managers, value: "1.2", readOnly: "the server speaks TLS 1.2 and 1.3, and no others"},
		{name: "ui-banners", about: "kept for dashboards", by: managers},
		{name: "ui-brand", about: "kept for dashboards", by: managers},
		{name: "ui-default-landing", about: "kept for dashboards", by: managers},
		{name: "ui-issues", about: "kept for dashboards", by: managers},
		{name: "ui-pl", about: "kept for dashboards: the product's name", by: managers, value: "drover"},
		{name: "wins-agent-version", about: "for clients that read it", by: administrators, readOnly: unused},
	}
}

// writersOf says of each setting who may write it.
var writersOf = sync.OnceValue(func() map[string]writers {
	all := map[string]writers{}
	for _, d := range definitions(Defaults{}) {
		all[d.name] = d.by
	}
	return all
})

// ForAdministrators says that only administrators may write a setting, with any rights that others have to change settings.
func ForAdministrators(name string) bool {
	by, known := writersOf()[name]
	return known && by != managers
}

// spokenVersion is drover's version behind the number that clients' version gates read.
func spokenVersion(version string) string {
	if version == "" {
		return spoken + "-drover"
	}
	return spoken + "-drover." + strings.TrimPrefix(version, "v")
}

// maxValue bounds what an administrator may store in one setting.
const maxValue = 64 << 10

func (d definition) validate(value string) error {
	if len(value) > maxValue {
		return &InvalidError{Name: d.name, Value: value[:32] + "…", Reason: fmt.Sprintf("is longer than %d bytes", maxValue)}
	}
	if value == "" || d.check == nil {
		return nil
	}
	if reason := d.check(value); reason != "" {
		return &InvalidError{Name: d.name, Value: value, Reason: reason}
	}
	return nil
}

func oneOf(values ...string) func(string) string {
	return func(value string) string {
		if slices.Contains(values, value) {
			return ""
		}
		return "is none of " + strings.Join(values, ", ")
	}
}

func atLeast(least int) func(string) string {
	return func(value string) string {
		if n, err := strconv.Atoi(value); err != nil || n < least {
			return fmt.Sprintf("is not a whole number of at least %d", least)
		}
		return ""
	}
}

func between(least, most int) func(string) string {
	return func(value string) string {
		if n, err := strconv.Atoi(value); err != nil || n < least || n > most {
			return fmt.Sprintf("is not a whole number from %d to %d", least, most)
		}
		return ""
	}
}

func minutes(value string) string {
	const century = 100 * 366 * 24 * 60
	if n, err := strconv.Atoi(value); err != nil || n < 0 || n > century {
		return fmt.Sprintf("is not a whole number of minutes from 0 (no limit) to %d", century)
	}
	return ""
}

// imageName is a reference of an image that needs no quotes in a shell.
var imageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`)

func image(value string) string {
	if len(value) > 512 || !imageName.MatchString(value) {
		return "is not a name of an image; write it as drover/rancher-agent:v1.2.3 or registry.example.com/rancher-agent@sha256:…"
	}
	return ""
}

// registry refuses what cannot stand before the name of an image.
func registry(value string) string {
	return forms.Registry(value, true)
}

// auditFilter refuses rules that leave nothing out for being misspelt.
func auditFilter(value string) string {
	if _, err := audit.ParseFilter(value); err != nil {
		return err.Error()
	}
	return ""
}

// ranges refuses a value of which a part would allow nothing.
func ranges(value string) string {
	if _, err := outgoing.ParseRanges(value); err != nil {
		return err.Error()
	}
	return ""
}

// serverURL refuses what would give hosts a command that cannot work.
func serverURL(value string) string {
	const example = "write it as https://drover.example.com or https://drover.example.com:8443"
	u, err := url.Parse(value)
	switch {
	case err != nil:
		return "is not a URL; " + example
	case u.Scheme != "https":
		return "does not begin with https://; " + example
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(value, "#"):
		return "has more than a host and a port; " + example
	case u.Path == "/":
		return "ends with a slash; " + example
	case u.Path != "" || u.Opaque != "":
		return "has a path; " + example
	case !forms.Host(u.Host):
		return "has no valid host; " + example
	}
	return ""
}

// The table of all settings, and what each of them takes.

package settings

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/outgoing"
)

// spoken is the Rancher release whose API this server speaks; clients choose their
// requests by the number that server-version begins with.
const spoken = "v2.15.0"

// RightsByHand says what becomes of changes that somebody makes by hand to the rights that the server keeps in clusters.
const (
	RightsByHand = "rights-changed-by-hand"
	PutBack      = "put-back"
	Report       = "report"
)

// definition is a setting that exists.
type definition struct {
	name  string
	value string // the default
	// check refuses a value with what is allowed instead; nil takes any text.
	check func(value string) (reason string)
	// readOnly is why nobody may write it; empty for those that can be written.
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
		{name: "agent-image", value: "drover/rancher-agent:" + cmp.Or(d.Version, "latest"), check: image},
		{name: "agent-tls-mode", value: "strict", check: oneOf("strict", "system-store")},
		{name: audit.SettingFilter, check: auditFilter},
		{name: audit.SettingLevel, value: "1", check: oneOf("0", "1", "2", "3")},
		{name: audit.SettingDays, value: "90", check: atLeast(1)},
		{name: audit.SettingFileMiB, value: "50", check: atLeast(1)},
		{name: audit.SettingFiles, value: "20", check: atLeast(2)},
		{name: "auth-token-default-ttl-minutes", value: "129600", check: minutes},
		{name: "auth-token-max-ttl-minutes", value: "129600", check: minutes},
		{name: "auth-user-info-max-age-seconds", value: "3600", check: atLeast(0)},
		{name: "auth-user-info-resync-cron", readOnly: "directories are asked about people by auth-user-info-max-age-seconds"},
		{name: "auth-user-session-idle-ttl-minutes", value: "960", check: atLeast(0)},
		{name: "auth-user-session-ttl-minutes", value: "960", check: minutes},
		{name: "cacerts", value: d.CACerts, readOnly: "it is the CA of the certificate that the server runs with"},
		{name: "cluster-agent", value: "imported", check: oneOf("imported", "all")},
		{name: "connections-per-source", value: "1000", check: atLeast(0)},
		{name: "crt-default-grace-period-minutes", value: "0", readOnly: noExpiry},
		{name: "crt-default-ttl-minutes", value: "0", readOnly: noExpiry},
		{name: "engine-install-url", readOnly: unused},
		{name: "eula-agreed"},
		{name: "first-login", value: "true", check: oneOf("true", "false")},
		{name: "install-uuid", readOnly: "it is made at the first start and names this installation from then on"},
		{name: "k8s-version", readOnly: unused},
		{name: "k8s-version-to-images", readOnly: unused},
		{name: "kubeconfig-default-token-ttl-minutes", value: "43200", check: minutes},
		{name: "kubeconfig-generate-token", value: "true", check: oneOf("true", "false")},
		{name: "kubeconfig-max-token-ttl-minutes", value: "129600", check: minutes},
		{name: "no-default-admin", value: "false", check: oneOf("true", "false")},
		{name: outgoing.Setting, check: ranges},
		{name: "password-min-length", value: "12", check: atLeast(2)},
		{name: "public-api-body-limit", value: "1Mi", readOnly: "the limit is built in"},
		{name: "registration-quota", value: "10000", check: atLeast(0)},
		{name: "registration-rate-per-minute", value: "6000", check: atLeast(0)},
		{name: RightsByHand, value: PutBack, check: oneOf(PutBack, Report)},
		{name: "server-image", readOnly: unused},
		{name: "server-url", value: d.ServerURL, check: serverURL},
		{name: "server-version", value: spokenVersion(d.Version), readOnly: "it is the release that runs"},
		{name: "server-version-type", value: "drover", readOnly: "it is the release that runs"},
		{name: "system-agent-install-script", readOnly: "hosts get the script of this server, from /system-agent-install.sh"},
		{name: "system-agent-installer-image", value: "rancher/system-agent-installer-"},
		{name: "system-agent-version", value: d.Version, readOnly: "it is the release that runs"},
		{name: "system-default-registry", check: registry},
		{name: "telemetry-opt", value: "out", check: oneOf("in", "out", "prompt")},
		{name: "tls-min-version", value: "1.2", readOnly: "the server speaks TLS 1.2 and 1.3, and no others"},
		{name: "ui-banners"},
		{name: "ui-brand"},
		{name: "ui-default-landing"},
		{name: "ui-issues"},
		{name: "ui-pl", value: "drover"},
		{name: "wins-agent-version", readOnly: unused},
	}
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
	host, path, ok := strings.Cut(value, "/")
	if !ValidHost(host) || ok && (path == "" || !imageName.MatchString(path)) || strings.HasSuffix(value, "/") || strings.Contains(path, ":") || strings.Contains(value, "@") {
		return "is not a registry; write it as registry.example.com, registry.example.com:5000 or registry.example.com/hub"
	}
	return ""
}

// hostName is what may stand where a shell command and a kubeconfig show the host.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$`)

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
	case !ValidHost(u.Host):
		return "has no valid host; " + example
	}
	return ""
}

// ValidHost says whether host is a name or address with an optional port that is safe
// to put into a URL, a shell command and a kubeconfig.
func ValidHost(host string) bool {
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
		name = h
		if strings.HasPrefix(host, "[") {
			name = "[" + h + "]"
		}
	}
	if inner, ok := strings.CutPrefix(name, "["); ok {
		address, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		return err == nil && address.Is6() && address.Zone() == "" && strings.HasSuffix(inner, "]")
	}
	return hostName.MatchString(name)
}

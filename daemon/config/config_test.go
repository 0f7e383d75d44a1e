package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/test/skips"
)

func write(t *testing.T, name, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFind(t *testing.T) {
	for _, tc := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"the file that is named", map[string]string{"CATTLE_AGENT_CONFIG": "/x/y.yaml", "RANCHER_SYSTEM_AGENT_CONFIG_DIR": "/z"}, "/x/y.yaml"},
		{"the directory that is named", map[string]string{"RANCHER_SYSTEM_AGENT_CONFIG_DIR": "/z"}, "/z/config.yaml"},
		{"the default", nil, "/var/lib/rancher/system-agent/etc/config.yaml"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := os.Lstat("/etc/rancher/agent/config.yaml"); err == nil && tc.env == nil {
				skips.Skip(t, "this machine has an agent")
			}
			if got := Find(func(k string) string { return tc.env[k] }); got != tc.want {
				t.Errorf("Find() = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestLoadAgent(t *testing.T) {
	const installed = `workDirectory: /var/lib/rancher/agent/work
preserveWorkDirectory: false
appliedPlanDirectory: /var/lib/rancher/agent/applied
localEnabled: false
localPlanDirectory: /var/lib/rancher/agent/plans
remoteEnabled: true
connectionInfoFile: /var/lib/rancher/agent/rancher2_connection_info.json
interlockDirectory: /var/lib/rancher/agent/interlock
`
	whole := Agent{
		WorkDirectory: "/var/lib/rancher/agent/work", AppliedPlanDirectory: "/var/lib/rancher/agent/applied",
		LocalPlanDirectory: "/var/lib/rancher/agent/plans", RemoteEnabled: true,
		ConnectionInfoFile: "/var/lib/rancher/agent/rancher2_connection_info.json", InterlockDirectory: "/var/lib/rancher/agent/interlock",
		ImagesDirectory: "/var/lib/rancher/agent/images", AgentRegistriesFile: "/etc/rancher/agent/registries.yaml",
		ImageCredentialProviderConfig: "/var/lib/rancher/credentialprovider/config.yaml", ImageCredentialProviderBinDirectory: "/var/lib/rancher/credentialprovider/bin",
	}
	local := Agent{
		WorkDirectory: "/v/w", LocalEnabled: true, LocalPlanDirectory: "/v/p",
		ImagesDirectory: "/v/i", AgentRegistriesFile: "/v/r.yaml", PreserveWorkDirectory: true, InstructionTimeout: "45m",
		ImageCredentialProviderConfig: "/v/c.yaml", ImageCredentialProviderBinDirectory: "/v/bin", ImageCacheLimit: "1048576",
	}
	for _, tc := range []struct {
		name, file, content string
		mode                os.FileMode
		want                Agent
	}{
		{"as install.sh writes it", "config.yaml", installed, 0o600, whole},
		{"read-only", "config.yaml", installed, 0o400, whole},
		{"unknown keys", "config.yaml", installed + "later: {x: 1}\n", 0o600, whole},
		{"another name", "config.yaml.new", installed, 0o600, whole},
		{"JSON", "config.json", `{"localEnabled":true,"localPlanDirectory":"/v/p","workDirectory":"/v/w","imagesDirectory":"/v/i",
			"agentRegistriesFile":"/v/r.yaml","preserveWorkDirectory":true,"instructionTimeout":"45m",
			"imageCredentialProviderConfig":"/v/c.yaml","imageCredentialProviderBinDirectory":"/v/bin","imageCacheLimit":1048576} trailing`, 0o600, local},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := write(t, tc.file, tc.content, tc.mode)
			got, err := LoadAgent(path)
			if err != nil {
				t.Fatal(err)
			}
			tc.want.Dir = filepath.Dir(path)
			if diff := cmp.Diff(tc.want, *got); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
	a := &local
	if d, err := a.Timeout(); d != 45*time.Minute || err != nil {
		t.Errorf("Timeout() = %v, %v", d, err)
	}
	if got := a.LedgerDirectory(); got != "/v/ledger" {
		t.Errorf("LedgerDirectory() = %s", got)
	}
}

func TestCacheLimit(t *testing.T) {
	for text, want := range map[string]int64{
		"": 2 << 30, "0": 0, "2147483648": 2 << 30, "2GiB": 2 << 30, "500 MiB": 500 << 20, "1.5GiB": 3 << 29, "1GB": 1e9, "10KiB": 10 << 10, "7B": 7,
		"GiB": -1, "1e300": -1, "NaN": -1, "2 gib": -1, "-2GiB": -1,
	} {
		got, err := (&Agent{ImageCacheLimit: Size(text)}).CacheLimit()
		if want < 0 && err == nil || want >= 0 && (err != nil || got != want) {
			t.Errorf("CacheLimit(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	if got := (&Agent{WorkDirectory: "/v/work/"}).CacheDirectory(); got != "/v/image-cache" {
		t.Errorf("CacheDirectory() = %s", got)
	}
	for _, file := range []string{"imageCacheLimit: 0", "imageCacheLimit: 0B", "imageCacheLimit: '0'"} {
		a, err := LoadAgent(write(t, "config.yaml", "localEnabled: true\nlocalPlanDirectory: /p\n"+file, 0o600))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := a.CacheLimit(); n != 0 || err != nil {
			t.Errorf("%s: %d, %v", file, n, err)
		}
	}
}

func TestLoadAgentRefuses(t *testing.T) {
	const ok = "localEnabled: true\nlocalPlanDirectory: /p\n"
	me := fmt.Sprintf("owner %d:%d", os.Getuid(), os.Getgid())
	for _, tc := range []struct {
		name, file, content string
		mode                os.FileMode
		want                []string // all in the error, the path too
	}{
		{"world-writable", "config.yaml", ok, 0o666, []string{"mode 0666", me, "chmod 0600"}},
		{"readable by the group", "config.yaml", ok, 0o640, []string{"mode 0640", me}},
		{"executable", "config.yaml", ok, 0o700, []string{"mode 0700"}},
		{"unreadable", "config.yaml", ok, 0o200, []string{"0"}},
		{"no format in its name", "config.txt", ok, 0o600, []string{".json or .yaml"}},
		{"no YAML", "config.yaml", "{", 0o600, []string{"line 1: is not YAML"}},
		{"no YAML further down", "config.yaml", ok + "workDirectory: /w: hunter2\n", 0o600, []string{"line 3: is not YAML"}},
		{"wrong type further down", "config.yaml", ok + "workDirectory: [hunter2]\n", 0o600, []string{"line 3: workDirectory: a value of another type is expected"}},
		{"wrong type", "config.yaml", "localEnabled: [hunter2]", 0o600, []string{"line 1"}},
		{"half of it", "config.json", `{"localEnabled":`, 0o600, []string{"not whole"}},
		{"no source", "config.yaml", "", 0o600, []string{"neither remoteEnabled nor localEnabled"}},
		{"no connection", "config.yaml", "remoteEnabled: true", 0o600, []string{"connectionInfoFile is empty"}},
		{"no directory", "config.yaml", "localEnabled: true", 0o600, []string{"localPlanDirectory is empty"}},
		{"relative", "config.yaml", ok + "workDirectory: work", 0o600, []string{"workDirectory", "absolute"}},
		{"the root as work directory", "config.yaml", ok + "workDirectory: /..", 0o600, []string{"workDirectory is the root"}},
		{"relative plugins", "config.yaml", ok + "imageCredentialProviderBinDirectory: bin", 0o600, []string{"imageCredentialProviderBinDirectory", "absolute"}},
		{"cache limit", "config.yaml", ok + "imageCacheLimit: lots", 0o600, []string{`imageCacheLimit "lots" is not an amount such as`}},
		{"negative cache limit", "config.yaml", ok + "imageCacheLimit: -1", 0o600, []string{"imageCacheLimit", "2GiB"}},
		{"timeout", "config.yaml", ok + "instructionTimeout: soon", 0o600, []string{"instructionTimeout"}},
		{"too long", "config.yaml", strings.Repeat("#", 2<<20), 0o600, []string{"more than"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := write(t, tc.file, tc.content, tc.mode)
			_, err := LoadAgent(path)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range append(tc.want, path) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("err = %v, want %q in it", err, want)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("content of the file is in %v", err)
			}
		})
	}
}

func TestLoadAgentWithoutFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yaml")
	if _, err := LoadAgent(path); err == nil || !strings.Contains(err.Error(), path+" is missing") {
		t.Errorf("err = %v", err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadAgent(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("of a FIFO: err = %v", err)
	}
}

func TestOwner(t *testing.T) {
	path := write(t, "config.yaml", "", 0o600)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	uid, gid := os.Getuid(), os.Getgid()
	if err := trusted(path, info, uid, gid); err != nil {
		t.Error(err)
	}
	for _, other := range [][2]int{{uid + 1, gid}, {uid, gid + 1}} {
		err := trusted(path, info, other[0], other[1])
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), fmt.Sprintf("owner %d:%d", uid, gid)) {
			t.Errorf("as %v: err = %v", other, err)
		}
	}
}

func TestLoadConnection(t *testing.T) {
	const whole = `{"kubeConfig":"k","namespace":"n","secretName":"s","tunnelURL":"wss://h/x","later":1}`
	got, err := LoadConnection(write(t, "rancher2_connection_info.json.tmp", whole, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	want := Connection{KubeConfig: "k", Namespace: "n", SecretName: "s", TunnelURL: "wss://h/x"}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("connection (-want +got):\n%s", diff)
	}
	for _, key := range []string{"kubeConfig", "namespace", "secretName"} {
		_, err := LoadConnection(write(t, "c.json", strings.Replace(whole, key, "other", 1), 0o600))
		if err == nil || !strings.Contains(err.Error(), key+" is missing") {
			t.Errorf("without %s: err = %v", key, err)
		}
	}
}

// Package skips is how a test is skipped, and the one list of those that may be under CI. A
// test that is skipped where everything has to run tests nothing and looks as if it did.
package skips

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// allowed are the tests that may be skipped under CI: directory and name, a pattern of
// path.Match for each part of the name, to the reason.
var allowed = map[string]string{
	"tunnel Test*/remotedialer":                         "the original's library has data races of its own; `make test` runs these once more without the detector",
	"tunnel TestBareClientOfTheLibrary":                 "as above",
	"tunnel TestBareServerOfTheLibrary":                 "as above",
	"tunnel TestHostThatCannotBeToldOfAnEnd":            "as above",
	"tunnel Benchmark*":                                 "`make bench` runs them; a slow line needs the right to make network namespaces",
	"server/planapi TestAgentsOfBenchmark":              "a process of BenchmarkIdleAgents, not a test",
	"server/api/kube TestKubectlOfClusters/*":           "as of server/planapi; TestKube* send what it sends",
	"server/api/kube TestKubectlOfPeople":               "as of server/planapi",
	"server/planapi Test*Kubectl*":                      "kubectl is built for `make e2e` only; other tests send what it sends",
	"daemon/systemd TestUnitsOfThisHost":                "asks the real systemd, and a container has none; `make e2e` asks that of its hosts",
	"daemon/config TestFind/the_default":                "a machine with an agent of the original's has another default",
	"packaging TestHeaders/interfaces/busybox":          "busybox's shell asks the real interfaces; the other shells run the case",
	"packaging TestSystemdAcceptsTheUnit":               "systemd is not installed for unit tests; `make e2e` has the unit verified on its hosts",
	"packaging TestSystemdAcceptsTheServersUnit":        "systemd is not installed for unit tests; `make e2e` has the unit analysed on its host",
	"daemon/selfupdate TestSystemdAcceptsTheJudgesUnit": "as above",
	"test/bed/dns TestNamesLeadWhereTheyAreSetTo":       "another name service may have the port",
}

// TB is the part of testing.TB that is needed.
type TB interface {
	Helper()
	Name() string
	Skip(...any)
	Fatalf(string, ...any)
}

// Skip is t.Skip. Under CI=true it fails the test, unless the list has it.
func Skip(t TB, why ...any) {
	t.Helper()
	_, file, _, _ := runtime.Caller(1)
	skip(t, directory(file), fmt.Sprint(why...))
}

// Skipf is t.Skipf, as Skip.
func Skipf(t TB, format string, args ...any) {
	t.Helper()
	_, file, _, _ := runtime.Caller(1)
	skip(t, directory(file), fmt.Sprintf(format, args...))
}

func skip(t TB, directory, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" && reason(directory, t.Name()) == "" {
		t.Fatalf("skipped: %s; under CI=true every test runs, unless test/skips names it with a reason", why)
	}
	t.Skip(why)
}

// reason is why a test may be skipped; empty for one that may not.
func reason(directory, name string) string {
	for key, why := range allowed {
		where, pattern, _ := strings.Cut(key, " ")
		if ok, err := path.Match(pattern, name); where == directory && ok && err == nil {
			return why
		}
	}
	return ""
}

// directory is that of a file of the repository, from its root.
func directory(file string) string {
	_, here, _, _ := runtime.Caller(0)
	root := filepath.Dir(filepath.Dir(filepath.Dir(here)))
	rel, err := filepath.Rel(root, filepath.Dir(file))
	if err != nil {
		return file
	}
	return filepath.ToSlash(rel)
}

// Kubernetes versions and what is known of them; upgrades and maintenance windows.

package views

import (
	"slices"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers/versions"
)

// OfVersion shows one version of the data.
func OfVersion(known *versions.Data, version string) apitypes.Version {
	runtime := versions.RuntimeOf(version)
	return apitypes.Version{Type: "version", Version: version, Runtime: string(runtime), Default: known.Default(runtime) == version, Upgrades: List(known.Upgrades(version))}
}

// OfVersionDetail shows one version with its settings.
func OfVersionDetail(known *versions.Data, r versions.Release) apitypes.VersionDetail {
	d := apitypes.VersionDetail{
		Version: OfVersion(known, r.Version), ServerArgs: args(r.ServerArgs), AgentArgs: args(r.AgentArgs), Charts: map[string]apitypes.VersionChart{}, Features: Dict(r.Features),
	}
	for name, c := range r.Charts {
		d.Charts[name] = apitypes.VersionChart(c)
	}
	return d
}

func args(all map[string]versions.Arg) map[string]apitypes.VersionArg {
	shown := make(map[string]apitypes.VersionArg, len(all))
	for name, a := range all {
		shown[name] = apitypes.VersionArg{Type: string(a.Type), Default: a.Default, Options: a.Options, Nullable: a.Nullable}
	}
	return shown
}

// OfVersionSource shows where data are from.
func OfVersionSource(s versions.Status) apitypes.VersionSource {
	return apitypes.VersionSource{Location: s.Location, Date: s.Date, Read: s.Read, Fault: s.Fault}
}

// OfUpgrades are the versions that a cluster may be upgraded to: not more than one minor line above the lowest
// version that runs in it, and not below the highest. Without any that runs, the wanted version stands for it.
func OfUpgrades(known *versions.Data, wanted string, running []string) (from string, to []string) {
	if len(running) == 0 {
		running = []string{wanted}
	}
	from, highest := slices.MinFunc(running, versions.Compare), slices.MaxFunc(running, versions.Compare)
	to = slices.DeleteFunc(known.Upgrades(from), func(v string) bool { return v == wanted || versions.Compare(v, highest) < 0 })
	return from, to
}

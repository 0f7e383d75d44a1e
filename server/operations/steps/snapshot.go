package steps

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"github.com/drover-project/drover/installers/errand"
)

// DefaultName begins the name of a snapshot for which the user gave none; the distribution's own are named so.
const DefaultName = "on-demand"

var save = Step{
	Name: "save", Title: "take a snapshot on %s", Needs: Needs{Skip: true}, Done: Done{Read: readSnapshot}, OnFailure: OnFailure{Tries: 3, Continue: true},
	Job: func(d *decider, id string, m Machine) (Errand, error) {
		return just(m.Host.Save(id, cmp.Or(d.request.Name, DefaultName)))
	},
}

// readSnapshot keeps the snapshot that a machine says it has taken.
func readSnapshot(d *decider, m Machine) (string, error) {
	file, err := errand.ReadFile(m.Output)
	if err != nil {
		return "", err
	}
	d.out.Saved = append(d.out.Saved, Saved{Machine: m.Name, File: file})
	return found(file), nil
}

func found(file errand.File) string {
	return fmt.Sprintf("%s, %d bytes, is whole", path.Base(file.File), file.Size)
}

// snapshot are the steps of a snapshot.
func (p planning) snapshot() ([]on, error) {
	for _, name := range p.request.Machines {
		if !slices.ContainsFunc(p.Machines, func(m Machine) bool { return m.Name == name && m.Roles.Etcd }) {
			return nil, fmt.Errorf("the cluster has no machine %s with etcd", name)
		}
	}
	return each(save, p.with(func(m Machine) bool {
		return m.Roles.Etcd && m.Member && (len(p.request.Machines) == 0 || slices.Contains(p.request.Machines, m.Name))
	})...), nil
}

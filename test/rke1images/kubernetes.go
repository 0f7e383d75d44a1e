package rke1images

// Kubernetes, built in a copy of its own module: the replacements of that module count only when it is the one that is
// built, and those of the parts that are developed with it lead to directories that the module does not have.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/drover-project/drover/test/k3smodule"
)

// kubernetesModule is the path of the module.
const kubernetesModule = "k8s.io/kubernetes"

// release is a version of RKE1's Kubernetes.
type release struct {
	// Source is the version of the module, Sum pins its content.
	Source, Sum string
	// Reports is what the programs report as their version.
	Reports string
	// OpenAPI is the version of the module that has the generated file which Source lacks; OpenAPISum pins it.
	OpenAPI, OpenAPISum string
	// Sums pins modules that the checksum database does not know, as lines of go.sum.
	Sums string
	// Tag is that of the image.
	Tag string
}

// old is the release of 1.23 with another version to report.
func old(reports, tag string) release {
	return release{
		Source: "v1.23.17", Sum: "h1:nzPjHGp+Qbh44wHxPv4DJp4Znot26yuENYLMu4Av6ZU=", Reports: reports,
		OpenAPI: "v1.24.17", OpenAPISum: "h1:+4+5VIoxcDv35PnVELouMdDC58AQF/sWs+hjjr4Ra44=", Tag: tag,
	}
}

// releases are the versions that can be built.
func releases() map[string]release {
	return map[string]release{
		Version: old("v1.23.17", "v1.23.17-rancher1"),
		Older:   old("v1.23.16", "v1.23.16-rancher2"),
		Next: {
			Source: "v1.24.17", Sum: "h1:+4+5VIoxcDv35PnVELouMdDC58AQF/sWs+hjjr4Ra44=", Reports: "v1.24.17", Tag: "v1.24.17-rancher1",
		},
		Newer: {
			Source: "v1.30.14", Sum: "h1:MrlKXh9uhLIJpyxOeXhcndzRVSvwiV9iJ8NgH8nqPsg=", Reports: "v1.30.8", Tag: "v1.30.8-rancher1",
			Sums: "k8s.io/kube-proxy v0.30.14 h1:hytob1NuBYKteKr8WrUJfaRqd2wHIOeFylRq+1LB3ZQ=\n" +
				"k8s.io/kube-proxy v0.30.14/go.mod h1:4e+Ar9gv5JXUZNmt6RsCt6NxmzkT9rXlbtSusj4dT9I=\n",
		},
	}
}

// hyperkube is the program of all of Kubernetes' programs.
func (b *builder) hyperkube(r release) string { return filepath.Join(b.Bin(), "hyperkube-"+r.Tag) }

// kubernetes builds a release.
func (b *builder) kubernetes(ctx context.Context, r release) error {
	if err := b.inKubernetes(ctx, r, "kubernetes", b.hyperkube(r)); err != nil {
		return err
	}
	kubectl := filepath.Join(b.Bin(), r.Tag, "kubectl") // it is what its name says
	if err := os.MkdirAll(filepath.Dir(kubectl), 0o755); err != nil {
		return err
	}
	return k3smodule.Link(b.hyperkube(r), kubectl)
}

// criDockerd builds the program that later kubelets have in dockershim's place.
func (b *builder) criDockerd(ctx context.Context) error {
	return b.inKubernetes(ctx, releases()[Version], "cridockerd", filepath.Join(b.Bin(), "cri-dockerd"))
}

// inKubernetes builds one of our programs in a copy of a release's module.
func (b *builder) inKubernetes(ctx context.Context, r release, program, output string) error {
	source := filepath.Join(b.Dir, "kubernetes-"+r.Source)
	if err := b.kubernetesSource(ctx, r, source, program); err != nil {
		return err
	}
	minor := strings.Split(r.Reports, ".")[1]
	flags := "-s -w -checklinkname=0" // the code reaches into the standard library of its time
	for _, module := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, value := range []string{"gitVersion=" + r.Reports, "gitMajor=1", "gitMinor=" + minor, "gitTreeState=clean", "buildDate=2023-02-22T13:27:46Z"} {
			flags += " -X " + module + "." + value
		}
	}
	err := b.Go(ctx, k3smodule.GoCommand{
		What: filepath.Base(output) + " of Kubernetes " + r.Source, Dir: source, Env: []string{"CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off"},
		// The checksums of the parts that are developed with it are not in its go.sum.
		Args: []string{"build", "-mod=mod", "-trimpath", "-tags", "providerless", "-ldflags=" + flags, "-o", output, "./cmd/" + program},
	})
	if err != nil {
		return err
	}
	return os.RemoveAll(source) // what is compiled is in Go's cache
}

// kubernetesSource makes the copy of the module in which a program is built.
func (b *builder) kubernetesSource(ctx context.Context, r release, source, program string) error {
	b.Say("%s: fetching Kubernetes %s", b.Product, r.Source)
	module, err := b.fetch(ctx, r.Source, r.Sum)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(source); err != nil {
		return err
	}
	if err := os.CopyFS(source, os.DirFS(module)); err != nil {
		return fmt.Errorf("copy Kubernetes' module: %w", err)
	}
	if r.OpenAPI != "" {
		if err := b.addOpenAPI(ctx, r, source); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(filepath.Join(b.Module, "test/rke1images", program, "main.go"))
	if err != nil {
		return err
	}
	text = bytes.Replace(text, []byte("//go:build ignore\n"), nil, 1)
	if err := k3smodule.WriteFile(filepath.Join(source, "cmd", program, "main.go"), text, 0o644); err != nil {
		return err
	}
	if err := appendTo(filepath.Join(source, "go.sum"), r.Sums); err != nil {
		return err
	}
	return replaceStaging(filepath.Join(source, "go.mod"), "v0"+strings.TrimPrefix(r.Source, "v1"))
}

// appendTo adds a text to a file.
func appendTo(path, text string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// replaceStaging lets a go.mod find the parts that are developed with Kubernetes, by their published versions. The samples,
// which only Kubernetes' own tests use, are not all published.
func replaceStaging(path, version string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	staged := regexp.MustCompile(`(?m)^(\s*(k8s\.io/[a-z-]+) =>) \./staging/.*$`)
	if !staged.Match(text) {
		return fmt.Errorf("%s replaces no module by a directory below staging", path)
	}
	text = regexp.MustCompile(`(?m)^.*\bk8s\.io/sample-[a-z-]+ .*\n`).ReplaceAll(text, nil)
	text = staged.ReplaceAll(text, []byte("$1 $2 "+version))
	if err := os.Chmod(path, 0o644); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// openAPIFile describes the types of the API. Kubernetes has it generated before each build, and its module has it from
// 1.24 on. Descriptions of what an older version does not have are of no harm to it.
const openAPIFile = "pkg/generated/openapi/zz_generated.openapi.go"

// addOpenAPI takes the file out of the next minor's module. Two lines of it call what the older library has not; they
// describe, for a form of the document that is off by default, quantities that may be numbers.
func (b *builder) addOpenAPI(ctx context.Context, r release, source string) error {
	module, err := b.fetch(ctx, r.OpenAPI, r.OpenAPISum)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(module, openAPIFile))
	if err != nil {
		return err
	}
	oneOf := regexp.MustCompile(`OneOf:(\s+)common\.GenerateOpenAPIV3OneOfSchema\((\w+\.\w+\{\})\.OpenAPIV3OneOfTypes\(\)\),`)
	if n := len(oneOf.FindAll(text, -1)); n != 2 {
		return fmt.Errorf("%s of %s has %d of the lines to change, and 2 were expected", openAPIFile, r.OpenAPI, n)
	}
	text = oneOf.ReplaceAll(text, []byte("Type:${1}${2}.OpenAPISchemaType(),"))
	return k3smodule.WriteFile(filepath.Join(source, openAPIFile), text, 0o644)
}

// fetch returns the directory of a version of Kubernetes' module in the module cache, after a look at what it holds.
func (b *builder) fetch(ctx context.Context, version, sum string) (string, error) {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", kubernetesModule+"@"+version)
	command.Dir, command.Env = b.Dir, append(os.Environ(), "GOFLAGS=") // outside of every module
	out, err := command.Output()
	var module struct{ Dir, Sum, Error string }
	if jsonErr := json.Unmarshal(out, &module); jsonErr != nil || module.Error != "" {
		return "", fmt.Errorf("fetch %s %s: %s (%w); the Go module proxy has to be reachable the first time", kubernetesModule, version, module.Error, err)
	}
	if module.Sum != sum {
		return "", fmt.Errorf("the proxy's %s %s has the checksum %s, and %s is pinned", kubernetesModule, version, module.Sum, sum)
	}
	return module.Dir, nil
}

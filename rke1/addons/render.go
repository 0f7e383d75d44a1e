package addons

// render.go makes texts of templates: those of the version data, and our own.

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"text/template"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/versions"
)

// manifests are our own texts. Each value that a user can write goes through the function json,
// which is YAML too, so that no value can be anything but a value.
//
//go:embed manifests/*.yaml
var manifests embed.FS

var ours = template.Must(template.New("").Funcs(template.FuncMap{
	"json": inJSON, "needed": needed, "linux": linux, "tolerations": tolerations, "spaced": spacedWords, "split": strings.Split,
}).Option("missingkey=error").ParseFS(manifests, "manifests/*.yaml"))

// oldestOwn is the oldest minor line that our own texts are for: their APIs begin there.
const oldestOwn = 22

// values are what a template is given. The names are those that KDM's templates use.
type values map[string]any

// writer makes the texts of one cluster.
type writer struct {
	c       *config.Cluster
	data    *versions.Data
	version config.Version
}

// text is an add-on's. plugin is its name in the version data, own the file that we have for it,
// which may be "".
func (w *writer) text(plugin, own string, v values) (string, error) {
	v["RBACConfig"] = w.c.Authorization.Mode
	if theirs, ok := w.data.Template(plugin, w.c.KubernetesVersion); ok {
		text, err := theirText(theirs, v)
		if err != nil {
			return "", fmt.Errorf("the template for %s in %s: %w", plugin, w.data.Source, err)
		}
		return text, nil
	}
	const instead = "data of KDM have one: " + versions.HowElse
	if own == "" {
		return "", fmt.Errorf("there is no text for %s: %s have no template for Kubernetes %s; %s", plugin, w.data.Source, w.c.KubernetesVersion, instead)
	}
	if !w.version.AtLeast(oldestOwn) {
		return "", fmt.Errorf("there is no text for Kubernetes %s: drover's own are for 1.%d and later; %s", w.c.KubernetesVersion, oldestOwn, instead)
	}
	v["Minor"] = w.version.Minor
	var out bytes.Buffer
	if err := ours.ExecuteTemplate(&out, own, v); err != nil {
		return "", plainFault(err)
	}
	if err := check("its text", out.Bytes()); err != nil {
		return "", err
	}
	return out.String(), nil
}

// theirText executes a template of the version data.
func theirText(source string, v values) (string, error) {
	t, err := template.New("template").Funcs(theirs).Parse(source)
	if err != nil {
		return "", fmt.Errorf("it cannot be read by this release of drover: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, v); err != nil {
		return "", plainFault(err)
	}
	if strings.Contains(out.String(), "<no value>") {
		return "", fmt.Errorf("it uses a value that this release of drover does not give it; take the data of a release of KDM that RKE 1.6 reads")
	}
	return out.String(), check("its text", out.Bytes())
}

// plainFault is a fault of a value without its place in the template.
func plainFault(err error) error {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	return err
}

// fault is a value of the config with which an add-on cannot be made.
type fault struct{ reason string }

func (f *fault) Error() string { return f.reason }

func faultf(format string, args ...any) error { return &fault{fmt.Sprintf(format, args...)} }

// theirs are the functions that KDM's templates use, of those of sprig and RKE.
var theirs = template.FuncMap{
	"toYaml": toYAML, "GetKubednsStubDomains": inJSON, "toJson": inJSON,
	"default": func(standard, value any) any {
		if truth, _ := template.IsTrue(value); truth {
			return value
		}
		return standard
	},
	"quote":     func(value any) string { return fmt.Sprintf("%q", fmt.Sprint(value)) },
	"indent":    indent,
	"nindent":   func(n int, text string) string { return "\n" + indent(n, text) },
	"splitList": func(separator, text string) []string { return strings.Split(text, separator) },
	"join":      func(separator string, words []string) string { return strings.Join(words, separator) },
	"first":     func(words []string) string { return words[0] },
	"last":      func(words []string) string { return words[len(words)-1] },
	"trim":      strings.TrimSpace,
	"lower":     strings.ToLower,
	"contains":  func(part, text string) bool { return strings.Contains(text, part) },
}

func indent(n int, text string) string {
	pad := strings.Repeat(" ", n)
	return pad + strings.ReplaceAll(text, "\n", "\n"+pad)
}

func inJSON(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

// toYAML is a value by its json names, without a newline at the end.
func toYAML(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	var plain any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&plain); err != nil {
		return "", err
	}
	text, err = strictyaml.Write(numbers(plain))
	return strings.TrimSuffix(string(text), "\n"), err
}

// numbers makes numbers of the texts that json.Number is.
func numbers(value any) any {
	switch value := value.(type) {
	case json.Number:
		if n, err := value.Int64(); err == nil {
			return n
		}
		f, _ := value.Float64()
		return f
	case []any:
		for i := range value {
			value[i] = numbers(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = numbers(value[key])
		}
	}
	return value
}

// needed is the name of an image.
func needed(field, image string) (string, error) {
	if image == "" {
		return "", faultf("system_images.%s is empty, and the version data have no image for it; write one", field)
	}
	return inJSON(image)
}

// linux is a node selector that keeps pods away from Windows.
func linux(selector map[string]string) (string, error) {
	all := map[string]string{"kubernetes.io/os": "linux"}
	maps.Copy(all, selector)
	return inJSON(all)
}

// tolerations are those of the config, or of every taint: the nodes of the roles etcd and
// controlplane have NoExecute and NoSchedule.
func tolerations(own []config.Toleration) (string, error) {
	if len(own) == 0 {
		return `[{"operator":"Exists"}]`, nil
	}
	return inJSON(own)
}

// spaced is a list that prints as words with a space between them, as files of CoreDNS have it.
// RKE prints it with brackets around it.
type spaced []string

func (s spaced) String() string { return strings.Join(s, " ") }

func spacedWords(words []string) string { return strings.Join(words, " ") }

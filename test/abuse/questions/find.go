package questions

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

const module = "github.com/drover-project/drover/"

// elsewhere is what asks neither hosts nor clusters: directories of people, and the other servers of a store.
var elsewhere = []string{"server/directories", "server/discovery", "server/clientip", "server/hosts *Relay"}

// Find is what the product's code asks of hosts and clusters, by "package function" and in the words of Question.Calls.
func Find(dir string) (map[string][]string, error) {
	all, err := packages.Load(&packages.Config{
		Dir: dir, Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedExportFile,
	}, "./server/...", "./rke1/...")
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	for _, p := range all {
		for _, e := range p.Errors {
			return nil, e
		}
		name := strings.TrimPrefix(p.PkgPath, module)
		for _, file := range p.Syntax {
			for _, declared := range file.Decls {
				place := name + " " + functionOf(declared)
				if slices.ContainsFunc(elsewhere, func(prefix string) bool { return strings.HasPrefix(place, prefix) }) {
					continue
				}
				ast.Inspect(declared, func(n ast.Node) bool {
					if call := named(p.TypesInfo, n); call != nil {
						if word := asks(name, call); word != "" && !slices.Contains(found[place], word) {
							found[place] = append(found[place], word)
						}
					}
					return true
				})
				slices.Sort(found[place])
				if len(found[place]) == 0 {
					delete(found, place)
				}
			}
		}
	}
	return found, nil
}

func functionOf(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	switch {
	case !ok:
		return "(a variable)"
	case f.Recv != nil:
		return types.ExprString(f.Recv.List[0].Type) + "." + f.Name.Name
	}
	return f.Name.Name
}

// named is the function, method or variable that a node calls or gives on; nil is none.
func named(info *types.Info, n ast.Node) types.Object {
	id, ok := n.(*ast.Ident)
	if !ok {
		return nil
	}
	switch o := info.Uses[id].(type) {
	case *types.Func, *types.Var:
		return o
	}
	return nil
}

var (
	typed = regexp.MustCompile(`^\(k8s\.io/client-go/kubernetes/typed/[a-z0-9]+/[a-z0-9]+\.(\w+)Interface\)\.(\w+)$`)
	// ways are methods and functions that ask by themselves, and what they are called in the table.
	ways = []struct {
		name *regexp.Regexp
		word string
	}{
		{regexp.MustCompile(`^\(\*github\.com/docker/docker/client\.Client\)\.(\w+)$`), "docker.$1"},
		{regexp.MustCompile(`^\(k8s\.io/client-go/dynamic\.ResourceInterface\)\.(\w+)$`), "dynamic.$1"},
		{regexp.MustCompile(`^\(\*k8s\.io/client-go/rest\.Request\)\.(Do|DoRaw|Stream|Watch)$`), "request.$1"},
		{regexp.MustCompile(`^\(\*?k8s\.io/client-go/discovery\.\w+\)\.(Server\w+|OpenAPI\w+)$`), "discovery.$1"},
		{regexp.MustCompile(`^\(k8s\.io/apimachinery/pkg/api/meta\.\w*RESTMapper\)\.(RESTMappings?|KindsFor|ResourcesFor|KindFor|ResourceFor)$`), "mapper.$1"},
		{regexp.MustCompile(`^(?:\(\*)?k8s\.io/kubectl/pkg/drain\.(?:Helper\)\.)?(GetPodsForDeletion|DeleteOrEvictPods|DeletePod|EvictPod|RunNodeDrain|RunCordonOrUncordon)$`), "drain.$1"},
		{regexp.MustCompile(`^\(\*k8s\.io/client-go/tools/cache\.Reflector\)\.(\w*ListAndWatch\w*|Run\w*)$`), "reflector.$1"},
		{regexp.MustCompile(`^\(\*net/http\.Client\)\.(Do|Get|Post|Head|PostForm)$`), "http.$1"},
		{regexp.MustCompile(`^\((?:\*net/http\.Transport|net/http\.RoundTripper)\)\.(RoundTrip)$`), "http.$1"},
		{regexp.MustCompile(`^github\.com/drover-project/drover/plans\.((?:Read|Decode)\w*|ReadOutcome)$`), "plans.$1"},
		{regexp.MustCompile(`^github\.com/drover-project/drover/tunnel/connect\.(Decode)$`), "connect.$1"},
		{regexp.MustCompile(`^github\.com/drover-project/drover/server/registration\.(readRequest)$`), "registration.$1"},
	}
)

// asks is the word for a call; empty when it asks nothing.
func asks(from string, call types.Object) string {
	signature, ok := call.Type().Underlying().(*types.Signature)
	if !ok {
		return ""
	}
	if f, ok := call.(*types.Func); ok {
		full := f.FullName()
		if m := typed.FindStringSubmatch(full); m != nil {
			if takesContext(signature) {
				return m[1] + "." + m[2]
			}
			return ""
		}
		for _, w := range ways {
			if !w.name.MatchString(full) || w.word == "docker.$1" && !takesContext(signature) {
				continue
			}
			return w.name.ReplaceAllString(full, w.word)
		}
	}
	// What takes a subject, or is a dialer, and gives an answer or a connection is a way to a host, whatever it is called.
	params, results := signature.Params().String(), signature.Results().String()
	if strings.Contains(params, "/server/records.Subject") && (strings.Contains(results, "net/http.Response") || strings.Contains(results, "net.Conn")) {
		return "host." + call.Name()
	}
	if strings.HasPrefix(from, "rke1") && takesContext(signature) && strings.Contains(results, "net.Conn") {
		return "host." + call.Name()
	}
	return ""
}

func takesContext(s *types.Signature) bool {
	return s.Params().Len() > 0 && s.Params().At(0).Type().String() == "context.Context"
}

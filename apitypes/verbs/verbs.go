// Package verbs has all that people do to one cluster, fleet, machine or operation, each as one value: the route with the right that it needs,
// what is sent and what comes back, and the words of its form on the page and of its command. The server makes its routes, their description,
// the forms and the line "the same by command" of these values, and drover's command line its commands, flags and completion. What the server
// does then is a handler that server/api/native/native.go lists by the verb's path. A command that looks before, or shows more, is written in
// cmd/drover/cli; the verb names it.
package verbs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/drover-project/drover/apitypes"
)

// Kind is a kind of object, by the word for it in roles.
type Kind string

// The kinds.
const (
	Cluster   Kind = "cluster"
	Fleet     Kind = "fleet"
	Machine   Kind = "node"
	Operation Kind = "operation"
)

// word is a kind for people.
func (k Kind) word() string {
	if k == Machine {
		return "machine"
	}
	return string(k)
}

// Collection is where objects of a kind are in /v1-drover.
func (k Kind) Collection() string { return k.word() + "s" }

// Verb is something that people do to one object.
type Verb struct {
	// Name is what addresses of the page call it.
	Name string
	// Of is the kind of the object, and Path where the verb is below the object's own address: it is a POST.
	Of   Kind
	Path string
	// Right is what the caller needs to be allowed to do, as roles have it: update, remove, or "action NAME".
	Right string
	// Summary says in the description of the API what a request does; of several verbs with one path the first has it. What begins operations,
	// and what answers with something else than JSON, is described beside the API.
	Summary string
	// Body is sent, with what Inputs add to it; nil sends none. Begins says that it is an apitypes.Asked, by which an operation begins whose
	// steps are shown before.
	Body   any
	Begins bool
	Inputs []Input
	// Make makes the body of what is given, where that does not stand in its fields as it is; the error says what is wrong with it. nil
	// puts each input in the field of its name.
	Make func(given url.Values) (any, error)
	// Answer is a value of the type that comes back, where no operation begins.
	Answer any
	// Confirm, of what cannot be undone, says what would be lost: a command needs --yes then, and on the page the name of the object is typed.
	Confirm func(o Object, given url.Values) string
	// Fits says whether it makes sense now for an object; nil is always.
	Fits    func(Object) bool
	Page    Page
	Command Command
}

// Page is how the page offers a verb. Without a Title it has no form that is made of the verb.
type Page struct {
	// Title is what its button says, About what follows, in a sentence or two, and Done what the next page says.
	Title, About, Done string
	// Pauses is what holds up or lets go on what is under way. Advanced ones are not offered at the first look. Leaves says that the
	// object's own page is gone afterwards.
	Pauses, Advanced, Leaves bool
	// Preview is shown before it is done, by the same request with dryRun=true; what begins an operation always is.
	Preview bool
}

// Command is how the command line has a verb.
type Command struct {
	// Line is its words after drover, as in "snapshots create CLUSTER". Two verbs with the same line are one command, for a cluster and a
	// fleet, with the help and the flags of the first.
	Line string
	// Short, Long and Example are its help, as cobra has them.
	Short, Long, Example string
	// Failed is what could not be done, in front of the reason: NAME is replaced by the object.
	Failed string
	// Own says that the command is written in the command line itself, as it looks before or shows more; Line is what it is called.
	Own bool
	// Report are the lines that are printed of an answer, with tabs between columns; nil for verbs that begin an operation, and for own commands.
	Report func(o Object, answer any) []string
}

// Input is what a user may give with a verb. One without a Label is given with commands alone.
type Input struct {
	// Name is its field in the body, or in the query with Query.
	Name  string
	Query bool
	// Kind is what it is.
	Kind InputKind
	// Flag is its flag in a command, Name without one; Help is that of the flag. An argument is a word of Command in place of a flag.
	Flag, Help string
	Argument   bool
	// Empty is the flag by which a command says that nothing is given; "" for none.
	Empty string
	// Value is what is sent in the query when nothing is given.
	Value string
	// Label and Hint are those of its field on the page; Choices are the values that there are, as pairs of value and title.
	Label, Hint string
	Choices     [][2]string
	// Fits says whether the page asks for it; nil is always.
	Fits     func(Object) bool
	Required bool
}

// InputKind is what an input is.
type InputKind int

// The kinds of inputs.
const (
	Text      InputKind = iota
	Tick                // true or not given
	Texts               // several texts; on the page with blanks between them
	Machines            // names of machines
	Snapshot            // the name of a snapshot of the cluster
	FleetName           // the name of a fleet
	Version             // a version that the cluster can be upgraded to
)

// FlagName is the flag of a command.
func (i Input) FlagName() string {
	if i.Flag != "" {
		return i.Flag
	}
	return i.Name
}

// Object is what a verb is done to: one of these.
type Object struct {
	Cluster   *apitypes.Cluster
	Fleet     *apitypes.Fleet
	Machine   *apitypes.Machine
	Operation *apitypes.Operation
}

// Kind is what it is.
func (o Object) Kind() Kind {
	switch {
	case o.Cluster != nil:
		return Cluster
	case o.Fleet != nil:
		return Fleet
	case o.Machine != nil:
		return Machine
	}
	return Operation
}

// Name is what people call it.
func (o Object) Name() string {
	switch o.Kind() {
	case Cluster:
		return o.Cluster.Name
	case Fleet:
		return o.Fleet.Name
	case Machine:
		return o.Machine.Name
	default:
		return o.Operation.ID
	}
}

// String is it in a sentence, as in "cluster harbour".
func (o Object) String() string { return o.Kind().word() + " " + o.Name() }

// Path is its address in /v1-drover.
func (o Object) Path() string {
	key := []string{o.Name()}
	switch o.Kind() {
	case Cluster:
		key = []string{o.Cluster.Namespace, o.Cluster.Name}
	case Machine:
		key = strings.SplitN(o.Machine.ID, "/", 2)
	case Fleet, Operation:
	}
	for i := range key {
		key[i] = url.PathEscape(key[i])
	}
	return "/v1-drover/" + o.Kind().Collection() + "/" + strings.Join(key, "/")
}

// Target is what is asked for by a POST: the path of the object and the verb, with a query.
func (v Verb) Target(o Object, given url.Values) string {
	q := url.Values{}
	for _, in := range v.Inputs {
		if text := cmp.Or(given.Get(in.Name), in.Value); in.Query && text != "" {
			q.Set(in.Name, text)
		}
	}
	target := o.Path() + "/" + v.Path
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	return target
}

// Sent is the body of the request, nil for none; the error is about what is given, or about an input that Body has no field for.
func (v Verb) Sent(given url.Values) (any, error) {
	switch {
	case v.Body == nil:
		return nil, nil
	case v.Make != nil:
		return v.Make(given)
	}
	body := map[string]any{}
	for _, in := range v.Inputs {
		switch all := given[in.Name]; {
		case in.Query || given.Get(in.Name) == "":
		case in.Kind == Tick:
			body[in.Name] = true
		case in.Kind == Texts || in.Kind == Machines:
			body[in.Name] = all
		default:
			body[in.Name] = all[0]
		}
	}
	sent := reflect.New(reflect.TypeOf(v.Body))
	sent.Elem().Set(reflect.ValueOf(v.Body))
	text, err := json.Marshal(body)
	if err == nil {
		read := json.NewDecoder(bytes.NewReader(text))
		read.DisallowUnknownFields()
		err = read.Decode(sent.Interface())
	}
	if err != nil {
		return nil, fmt.Errorf("what is given with %s: %w", v.Name, err)
	}
	return sent.Elem().Interface(), nil
}

// Words are the words of its command that name what to call, and those that stand for arguments.
func (v Verb) Words() (call, arguments []string) {
	all := strings.Fields(v.Command.Line)
	at := slices.IndexFunc(all, func(word string) bool { return word == strings.ToUpper(word) })
	if at < 0 {
		return all, nil
	}
	return all[:at], all[at:]
}

// All are all verbs, those of a command together.
func All() []Verb {
	return slices.Concat(ofClusters(), ofSnapshots(), ofRotations(), ofAgents(), ofMachines(), onOperations(ofOperations()), ofFleets())
}

// reported is a Report of answers of one type.
func reported[T any](report func(Object, T) []string) func(Object, any) []string {
	return func(o Object, answer any) []string {
		one, _ := answer.(T)
		return report(o, one)
	}
}

// At is where it is, which several verbs of one kind may share: its kind and its path, as in clusters/pause.
func (v Verb) At() string { return v.Of.Collection() + "/" + v.Path }

// Pattern is its route, with {namespace}, {name} and {id} in place of what names the object.
func (v Verb) Pattern() string {
	key := "{namespace}/{name}"
	switch v.Of {
	case Fleet:
		key = "{name}"
	case Operation:
		key = "{id}"
	case Cluster, Machine:
	}
	return "/v1-drover/" + v.Of.Collection() + "/" + key + "/" + v.Path
}

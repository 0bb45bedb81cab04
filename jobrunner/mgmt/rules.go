package mgmt

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// bodyTypes maps the types of request bodies to their rows in the contract.
var bodyTypes = map[reflect.Type]struct {
	api      contract.API
	resource string
	nonEmpty bool // an update must have at least one member
}{
	reflect.TypeFor[templateBodyV1]():      {contract.V1, "template", false},
	reflect.TypeFor[templateBodyV2]():      {contract.V2, "template", false},
	reflect.TypeFor[networkVolumeBodyV1](): {contract.V1, "networkVolume", false},
	reflect.TypeFor[networkVolumeBodyV2](): {contract.V2, "networkVolume", true},
	reflect.TypeFor[registryAuthBodyV1]():  {contract.V1, "registryAuth", false},
	reflect.TypeFor[registryAuthBodyV2]():  {contract.V2, "registryAuth", false},
	reflect.TypeFor[delegationBodyV2]():    {contract.V2, "delegation", false},
	reflect.TypeFor[endpointBodyV1]():      {contract.V1, "endpoint", false},
	reflect.TypeFor[endpointBodyV2]():      {contract.V2, "endpoint", false},
	reflect.TypeFor[podBodyV1]():           {contract.V1, "pod", false},
	reflect.TypeFor[podBodyV2]():           {contract.V2, "pod", false},
	reflect.TypeFor[podActionBodyV2]():     {contract.V2, "podAction", false},
	reflect.TypeFor[clusterBodyV2]():       {contract.V2, "cluster", true},
	reflect.TypeFor[sshKeysV2]():           {contract.V2, "sshKeys", false},
	reflect.TypeFor[secretBodyV2]():        {contract.V2, "secret", true},
	reflect.TypeFor[globalVolumeBodyV2]():  {contract.V2, "globalVolume", true},
}

// bodyPath is the path of an object in a body of the contract.
type bodyPath struct {
	contract.Body
	path string // path of an object in the body with a final dot; "" for the whole body
}

// bodyPathOf returns the path of the whole body of a wire type.
func bodyPathOf(t reflect.Type, use contract.Use) bodyPath {
	b := bodyTypes[t]
	return bodyPath{Body: contract.Body{API: b.api, Resource: b.resource, Use: use}}
}

// in returns the path of the objects of a member.
func (p bodyPath) in(name string) bodyPath {
	if name != "" {
		p.path += name + "."
	}
	return p
}

// row returns the row of a member, or nil if the body doesn't have it.
func (p bodyPath) row(name string) *contract.Field { return p.At(p.path + name) }

type member struct {
	name  string
	index []int
	row   *contract.Field // nil if the body doesn't have it
}

type memberKey struct {
	typ reflect.Type
	at  bodyPath
}

var memberCache sync.Map // of []member by memberKey

// members lists the members of a struct and of the structs that it embeds.
func members(t reflect.Type, at bodyPath) []member {
	key := memberKey{t, at}
	if cached, ok := memberCache.Load(key); ok {
		return cached.([]member)
	}
	var out []member
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			out = append(out, member{name, f.Index, at.row(name)})
		}
	}
	memberCache.Store(key, out)
	return out
}

var patterns sync.Map // of *regexp.Regexp by text

// pattern returns a form as a compiled pattern, which it caches.
func pattern(f contract.Form) *regexp.Regexp {
	if cached, ok := patterns.Load(f.Pattern); ok {
		return cached.(*regexp.Regexp)
	}
	compiled := regexp.MustCompile(f.Pattern)
	patterns.Store(f.Pattern, compiled)
	return compiled
}

// rejectsEmptyUpdate reports whether an update with a body of a type must have at least one member.
func rejectsEmptyUpdate(t reflect.Type, u contract.Use) bool {
	return u == contract.Update && bodyTypes[t].nonEmpty
}

// checkChange rejects an update without changes. Members that only creates have don't count.
func (d *decoder) checkChange(path string, body reflect.Value, at bodyPath) {
	var names []string
	for _, m := range members(body.Type(), at) {
		switch {
		case m.row == nil:
		case !body.FieldByIndex(m.index).IsZero():
			return
		default:
			names = append(names, "'"+m.name+"'")
		}
	}
	d.addFault(path, "got no properties, want %s", strings.Join(names, " or "))
}

var (
	defaultDisk      = contract.Default[int64](contract.FieldAt(contract.V2, "template", "disk"))
	defaultGPUCount  = contract.Default[int64](contract.FieldAt(contract.V2, "endpoint", "gpu.count"))
	defaultVCPUCount = contract.Default[int64](contract.FieldAt(contract.V1, "endpoint", "vcpuCount")) // version 2 requires a count
)

func defaultsOf[B any]() (body B) {
	at := bodyPathOf(reflect.TypeFor[B](), contract.Create)
	tree, err := parse(strings.NewReader(string(contract.Defaults(at.API, at.Resource))))
	if err != nil {
		panic(fmt.Sprintf("the defaults of %s: %v", at.Resource, err))
	}
	d := decoder{partial: true}
	d.decodeObject("$", tree, reflect.ValueOf(&body).Elem(), at)
	if len(d.faults) > 0 {
		panic(fmt.Sprintf("the defaults of %s: %s", at.Resource, strings.Join(d.faults, "; ")))
	}
	return body
}

func defaultVolume() store.LocalVolume {
	return store.LocalVolume{Path: *defaultsOf[templateBodyV1]().VolumeMountPath}
}

func templateDefaultsV2() store.Template {
	t := store.Template{Volume: defaultVolume()}
	if err := defaultsOf[templateBodyV2]().apply(&t); err != nil {
		panic("the defaults of a template are invalid: " + err.Error())
	}
	return t
}

// templateDefaultsV1 has the defaults of version 2 for the members that version 1 lacks.
func templateDefaultsV1() store.Template {
	t := templateDefaultsV2()
	_ = defaultsOf[templateBodyV1]().apply(&t) // never fails
	return t
}

func endpointDefaultsV1() store.Endpoint {
	e := endpointDefaultsV2()
	e.IdleTimeout = *defaultsOf[endpointBodyV1]().IdleTimeout
	return e
}

func endpointDefaultsV2() store.Endpoint {
	d := defaultsOf[endpointBodyV2]()
	return store.Endpoint{
		Type: *d.Type, Container: store.Container{Disk: defaultDisk}, WorkersMin: *d.Workers.WorkersMin, WorkersMax: *d.Workers.WorkersMax,
		IdleTimeout: *d.Workers.IdleTimeout, Scaling: d.Scaling.toRecord(), Timeout: *d.Timeout, FlashBoot: *d.FlashBoot,
	}
}

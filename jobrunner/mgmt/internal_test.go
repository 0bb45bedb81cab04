package mgmt

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// unansweredMembers are members of answers that this deployment omits.
var unansweredMembers = map[string]string{
	"v1 endpoint userId": "there is one user, without an id",
}

// answerTypes are the types of answers.
var answerTypes = map[reflect.Type]contract.Body{
	reflect.TypeFor[templateV1]():      {API: contract.V1, Resource: "template", Use: contract.Read},
	reflect.TypeFor[templateV2]():      {API: contract.V2, Resource: "template", Use: contract.Read},
	reflect.TypeFor[networkVolumeV1](): {API: contract.V1, Resource: "networkVolume", Use: contract.Read},
	reflect.TypeFor[networkVolumeV2](): {API: contract.V2, Resource: "networkVolume", Use: contract.Read},
	reflect.TypeFor[delegationV2]():    {API: contract.V2, Resource: "delegation", Use: contract.Read},
	reflect.TypeFor[endpointV1]():      {API: contract.V1, Resource: "endpoint", Use: contract.Read},
	reflect.TypeFor[endpointV2]():      {API: contract.V2, Resource: "endpoint", Use: contract.Read},
	reflect.TypeFor[podV1]():           {API: contract.V1, Resource: "pod", Use: contract.Read},
	reflect.TypeFor[podV2]():           {API: contract.V2, Resource: "pod", Use: contract.Read},
	reflect.TypeFor[clusterV2]():       {API: contract.V2, Resource: "cluster", Use: contract.Read},
	reflect.TypeFor[gpuTypeV2]():       {API: contract.V2, Resource: "gpuType", Use: contract.Read},
	reflect.TypeFor[cpuTypeV2]():       {API: contract.V2, Resource: "cpuType", Use: contract.Read},
	reflect.TypeFor[dataCenterV2]():    {API: contract.V2, Resource: "dataCenter", Use: contract.Read},
	reflect.TypeFor[registryAuth]():    {API: contract.V1, Resource: "registryAuth", Use: contract.Read},
	reflect.TypeFor[sshKeysV2]():       {API: contract.V2, Resource: "sshKeys", Use: contract.Read},
}

// A wire type has exactly the members that the contract lists for it, with their types.
func TestWireTypesMatchContract(t *testing.T) {
	exceptions := maps.Clone(unansweredMembers)
	bodies := maps.Clone(answerTypes)
	for typ := range bodyTypes {
		if _, answer := answerTypes[typ]; !answer {
			bodies[typ] = bodyPathOf(typ, contract.Create|contract.Update).Body
		}
	}
	for typ, body := range bodies {
		wireMembers := map[string]wireMember{}
		collectMembers(typ, "", wireMembers)
		inContract := map[string]bool{}
		for _, f := range contract.FieldsOf(body.API, body.Resource, body.Use) {
			inContract[f.Path] = true
			key := string(f.API) + " " + f.Resource + " " + f.Path
			switch m, ok := wireMembers[f.Path]; {
			case !ok && exceptions[key] == "":
				t.Errorf("%s is unknown to %s", key, typ)
			case !ok:
				delete(exceptions, key)
			case m.kind != f.Type:
				t.Errorf("%s is %s, in %s it is %s", key, f.Type, typ, m.kind)
			case body.Use == contract.Read && f.RequiredIn(contract.Read) && m.optional:
				t.Errorf("%s must be in every answer: it has omitempty in %s", key, typ)
			}
		}
		for path := range wireMembers {
			must.Hold(t, inContract[path], "the contract has no", path, typ)
		}
	}
	for unused := range exceptions {
		t.Errorf("unansweredMembers has %s, but answers have it or the contract lacks it", unused)
	}
}

func TestBillingMatchesContract(t *testing.T) {
	for _, o := range operations {
		for _, row := range contract.FieldsOf(contract.API(o.path[1:3]), o.handle.resource, contract.Read) {
			object, name := row.Path[:strings.LastIndex(row.Path, ".")+1], row.Path[strings.LastIndex(row.Path, ".")+1:]
			got := string(new(sum).encode(contract.Body{API: row.API, Resource: row.Resource, Use: row.Use}, object, nil))
			must.Hold(t, row.Unit == "" || strings.Contains(got, `"`+name+`":0`), row.API, row.Resource, "lacks", row.Path, got)
		}
	}
}

// wireMember describes a member of a wire type.
type wireMember struct {
	kind     string
	optional bool // in an answer
}

func collectMembers(typ reflect.Type, prefix string, members map[string]wireMember) {
	for _, f := range reflect.VisibleFields(typ) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		path, elem := prefix+name, f.Type
		if elem.Kind() == reflect.Pointer {
			elem = elem.Elem()
		}
		members[path] = wireMember{kindOf(elem), strings.Contains(options, "omitempty")}
		switch {
		case members[path].kind == "object" && elem != reflect.TypeFor[templateV1](): // the contract only names it in an endpoint, and describes it separately
			collectMembers(elem, path+".", members)
		case members[path].kind == "array" && elem.Elem().Kind() == reflect.Struct && elem.Elem() != reflect.TypeFor[podV1]():
			collectMembers(elem.Elem(), path+"[].", members)
		}
	}
}

// kindOf returns the contract's type of a wire type's field.
func kindOf(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Pointer:
		return kindOf(t.Elem())
	case t == reflect.TypeFor[clearableText](), t == reflect.TypeFor[time.Time](), t.Kind() == reflect.String:
		return "string"
	case t == reflect.TypeFor[catalog.USD](), t.Kind() == reflect.Float64:
		return "number"
	case t.Kind() == reflect.Int64:
		return "integer"
	case t.Kind() == reflect.Bool:
		return "boolean"
	case t.Kind() == reflect.Slice:
		return "array"
	case t.Kind() == reflect.Struct:
		return "object"
	}
	return t.Kind().String() // map
}

// Each rule of CopyFields: a body changes what it has, an answer has no nil list or map, and fields of other types stay.
func TestCopyFields(t *testing.T) {
	type body struct {
		Name, Image     *string
		TemplateID      clearableText
		Registry, Extra clearableText
		GPU             *int
	}
	type record struct {
		store.Head
		Image, TemplateID, Registry string
		GPU                         string
		List                        []string
		Map                         map[string]string
		Status                      store.PodStatus
	}
	type answer struct {
		ID, Name, Created, Status string
		Image, TemplateID         *string
		List                      []string
		Map                       map[string]string
	}
	r := record{Head: store.Head{ID: "1", Name: "before", Created: time.Unix(0, 0)}, Image: "kept", TemplateID: "t", Registry: "kept", GPU: "kept", Status: store.PodRunning}
	want := r
	want.Name, want.TemplateID = "after", ""
	copyFields(&r, body{Name: new("after"), TemplateID: clearableText{Set: true}, GPU: new(1)})
	must.Hold(t, reflect.DeepEqual(r, want), "the record is", r, "want", want)
	wantAnswer := answer{
		ID: "1", Name: "after", Created: "1970-01-01T00:00:00.000Z", Status: string(store.PodRunning),
		Image: new("kept"), List: []string{}, Map: map[string]string{},
	}
	must.Equal(t, convert[record, answer](r), wantAnswer, "the answer")
}

func TestLogQuery(t *testing.T) {
	const stamp = "2026-06-01T12:05:04Z"
	for _, c := range []struct{ since, tail, lastEvent, wantErr string }{
		{"2020-01-01t00:00:00z", "7", strings.ToLower(stamp), ""},
		{"", "", "qAbR#]", "invalid Last-Event-ID: "},
		{"yesterday", "", "", "invalid since: "},
		{"yesterday", "", stamp, "invalid since: "},
		{stamp, "-1", "", "invalid tail: "},
		{"", "x", stamp, "invalid tail: "},
	} {
		r := httptest.NewRequest("GET", "/?"+url.Values{"since": {c.since}, "tail": {c.tail}}.Encode(), nil)
		r.Header.Set("Last-Event-ID", c.lastEvent)
		query := newQuery(&call{http: r})
		q, err := readLogQuery(query), query.err()
		if c.wantErr != "" {
			must.ErrorContains(t, err, c.wantErr)
			continue
		}
		must.Hold(t, err == nil && q.tail < 0 && lineID(run.Line{Time: q.since}) == "2026-06-01T12:05:04.000000001Z", c, "gives the stream", q, "and the error", err)
	}
}

// Every route is an operation of its version's document, and every operation of a document is a route.
// Each route describes the body of its answer, unless it answers 204.
func TestDocumentsHaveTheRoutes(t *testing.T) {
	documented := map[string]*openapi.Operation{}
	ids := map[string]bool{}
	for _, e := range editions {
		for path, item := range e.document().Paths {
			for method, o := range item {
				documented[strings.ToUpper(method)+" "+strings.TrimSuffix(e.server, "/")+path] = o
				if id := fmt.Sprint(e.version, o.OperationID); ids[id] {
					t.Errorf("the operation id %s is used twice", id)
				} else {
					ids[id] = true
				}
			}
		}
	}
	for _, o := range operations {
		route := o.method + " " + o.path
		operation := documented[route]
		delete(documented, route)
		switch {
		case operation == nil:
			t.Errorf("%s is not in its document", route)
		case o.handle.answer == nil && o.success != 204:
			t.Errorf("%s describes no answer: see plainHandler in operations.go", route)
		case o.handle.body == nil && (o.method == "PATCH" || o.method == "PUT" || o.method == "POST" && !strings.Contains(o.path, "{id}/")):
			t.Errorf("%s describes no body: see bodyHandler in operations.go", route)
		}
	}
	for route := range documented {
		t.Errorf("%s is in a document, and not a route", route)
	}
}

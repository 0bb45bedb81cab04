package api

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// omittedMembers lists the members of the contract that the client doesn't use, or uses in another form.
var omittedMembers = map[contract.API]map[string]map[string]string{ // by API, resource and path: the reason
	contract.V1: {
		"template": {"earned": "a statistic", "runtimeInMin": "a statistic", "isRunpod": "not a setting of the user's templates", "isPlatform": "not a setting of the user's templates"},
		"endpoint": {
			"networkVolumeId": "read, and never sent: same as networkVolumeIds", "env": "from the template", "template": "read by its id",
			"workers": "not a setting", "userId": "not a setting", "version": "not a setting",
		},
		"pod": {
			"template": "read by its id", "networkVolume.name": "read by its id", "networkVolume.size": "read by its id", "networkVolume.dataCenterId": "read by its id",
			"vcpuCount":        "a whole number in requests, and any number in answers",
			"lastStatusChange": "v2 has the status itself",
			"endpointId":       "only for workers", "aiApiId": "only for workers", "slsVersion": "only for workers",
			"consumerUserId": "not a setting", "savingsPlans": "not a setting", "volumeEncrypted": "no request sets it",
			"adjustedCostPerHr": "costPerHr with the savings plans of the account", "machine.costPerHr": "same as costPerHr",
			"machineId":       "chosen by the scheduler",
			"gpu.displayName": "in the catalog", "gpu.securePrice": "in the catalog", "gpu.communityPrice": "in the catalog",
			"machine.gpuTypeId": "same as gpu", "machine.gpuType": "same as gpu",
			"machine.gpuType.id": "same as gpu", "machine.gpuType.count": "same as gpu", "machine.gpuType.displayName": "same as gpu",
			"machine.gpuType.securePrice": "in the catalog", "machine.gpuType.communityPrice": "in the catalog", "machine.gpuDisplayName": "in the catalog",
			"machine.gpuAvailable": "about the machine", "machine.cpuCount": "about the machine", "machine.cpuTypeId": "about the machine", "machine.minPodGpuCount": "about the machine",
		},
	},
	contract.V2: {
		"endpoint": {"cpu[].memory": "follows from the flavor and the vCPU count"},
		"pod": {"templateId": "no update applies a template again: it would bring the template's other changes",
			"globalNetworking": "a boolean in requests and an object in answers: GlobalNetworking encodes the one and decodes the other"},
	},
}

// wires lists the types that the client encodes and decodes, with bodies that together set every field.
var wires = []struct {
	api              contract.API
	resource         string
	wire             any
	creates, updates []any
}{
	{contract.V1, "template", templateV1{}, bodies(templatesV1(nil, nil).create, fullTemplate), patches(templatesV1(nil, nil), fullTemplate)},
	{contract.V2, "template", Template{}, bodies(templatesV2(nil, nil).create, fullTemplate), patches(templatesV2(nil, nil), fullTemplate)},
	{contract.V1, "networkVolume", networkVolumeV1{}, bodies(networkVolumesV1(nil, nil).create, fullVolume), patches(networkVolumesV1(nil, nil), fullVolume)},
	{contract.V2, "networkVolume", NetworkVolume{}, bodies(networkVolumesV2(nil, nil).create, fullVolume), patches(networkVolumesV2(nil, nil), fullVolume)},
	{contract.V1, "registryAuth", RegistryAuth{}, bodies(registryAuthsV1(nil, nil).create, fullAuth), nil},
	{contract.V2, "registryAuth", RegistryAuth{}, bodies(registryAuthsV2(nil, nil).create, fullAuth), nil},
	{contract.V1, "endpoint", endpointV1{}, bodies(endpointsV1(nil, nil).create, gpuEndpoint, cpuEndpoint), patches(endpointsV1(nil, nil), gpuEndpoint, cpuEndpoint)},
	{contract.V2, "endpoint", endpointV2{}, bodies(endpointsV2(nil, nil).create, gpuEndpoint, cpuEndpoint), patches(endpointsV2(nil, nil), gpuEndpoint, cpuEndpoint)},
	{contract.V2, "gpuType", GPUType{}, nil, nil},
	{contract.V2, "cpuType", CPUType{}, nil, nil},
	{contract.V2, "dataCenter", DataCenter{}, nil, nil},
	{contract.V1, "pod", podV1{}, bodies(podsV1(nil, nil).create, gpuPod, cpuPod), patches(podsV1(nil, nil).Collection, gpuPod, cpuPod)},
	{contract.V2, "pod", podV2{}, bodies(podsV2(nil, nil).create, gpuPod, cpuPod), patches(podsV2(nil, nil).Collection, gpuPod, cpuPod)},
	{contract.V2, "cluster", Cluster{}, bodies(clustersV2(nil, nil).create, fullCluster, networkCluster), patches(clustersV2(nil, nil).Collection, fullCluster)},
	{contract.V2, "delegation", Delegation{}, bodies(delegationsV2(nil, nil).create, Delegation{Name: new("x"), Resource: "x"}), nil},
	{contract.Jobs, "jobSubmission", Submission{}, []any{Submission{
		json.RawMessage(`{}`), "x", &JobPolicy{new(int64(1)), new(true), new(int64(1))}, &S3Config{"x", "x", "x", "x"}}}, nil},
	{contract.Jobs, "job", Job{}, nil, nil},
	{contract.Jobs, "health", Health{}, nil, nil},
}

var (
	fullCommand  = Command{new("x"), new([]string{"x"}), new([]string{"x"})}
	fullTemplate = Template{
		Name: "x", Image: "x", Command: fullCommand, Disk: 1, Env: map[string]string{"X": "x"},
		Ports: []string{"1/tcp"}, Registry: "x", Mounts: TemplateMounts{&PersistentMount{1, "/x"}}, Public: true, Serverless: true, Category: "CPU",
		Readme: new("x"), StartSSH: new(true), StartJupyter: new(true), AllowedCUDAVersions: new([]string{"1.0"}),
	}
	fullVolume  = NetworkVolume{Name: "x", Size: 1, DataCenter: "x", Type: new("x")}
	fullAuth    = RegistryAuth{Name: "x", Username: "x", Password: "x"}
	gpuEndpoint = Endpoint{
		Name: "x", Type: "QUEUE", TemplateID: new("x"),
		Container:     fullContainer,
		GPU:           &GPU{[]string{"x"}, []string{"x"}, []string{"x"}, 1, []string{"1.0"}, "1.0"},
		Workers:       Workers{1, 2, new(int64(1))},
		Scaling:       Scaling{Type: "QUEUE_DELAY", QueueDelay: 1},
		DataCenterIDs: []string{"x"}, NetworkVolumes: []string{"x"}, Timeout: 1, FlashBoot: new("FLASHBOOT"),
	}
	fullContainer = &Container{new("x"), fullCommand, new(int64(1)), map[string]string{"X": "x"}, new([]string{"1/tcp"}), new("x")}
	gpuPod        = Pod{
		Name: "x", TemplateID: new("x"), Container: fullContainer,
		GPU: &PodGPU{"x", 1, PodGPURequirements{[]string{"1.0"}, "1.0", 1, 1}, new(1.5), new(1.5)}, Mounts: PodMounts{Persistent: &PersistentMount{10, "/x"}},
		Cloud: "SECURE", DataCenterIDs: []string{"x"}, GlobalNetworking: &GlobalNetworking{Enabled: true}, Locked: new(true), StartSSH: new(true), StartJupyter: new(true),
		Placement: PodPlacement{
			new(true), new(true), []string{"x"}, "custom", "custom", "custom", new(int64(1)), new(int64(1)), new(1.0), new(1.0), new(1.0),
		},
		PodState: PodState{Status: "RUNNING"},
	}
	cpuPod = Pod{
		Name: "x", Container: fullContainer, CPU: &PodCPU{ID: "x", VCPUCount: 2}, Mounts: PodMounts{Network: []NetworkMount{{"x", "/x"}}},
	}
	fullCluster = Cluster{
		Name: "x", Type: "SLURM", Compute: ClusterCompute{"x", 1, 2}, Image: "x", Command: fullCommand, Disk: 1, Env: map[string]string{"X": "x"}, Ports: []string{"1/tcp"},
		Mounts: PodMounts{Persistent: &PersistentMount{10, "/x"}}, DataCenterIDs: []string{"x"}, StartSSH: new(true), StartJupyter: new(true),
		ClusterState: ClusterState{CreatedAt: "x"},
	}
	networkCluster = Cluster{TemplateID: "x", Mounts: PodMounts{Network: []NetworkMount{{"x", "/x"}}}}
	cpuEndpoint    = Endpoint{CPU: []CPU{{"x", 2}}, Scaling: Scaling{Type: "REQUEST_COUNT", RequestCount: 1}}
)

func bodies[T any](encode func(T) (any, error), objects ...T) (out []any) {
	for _, object := range objects {
		body, err := encode(object)
		if err != nil {
			body = err // the test fails: no operation has such a body
		}
		out = append(out, body)
	}
	return out
}

// patches returns the update bodies that set every field of an empty object.
func patches[T any](c *Collection[T], objects ...T) []any {
	return bodies(func(object T) (any, error) { return c.update(*new(T), object) }, objects...)
}

func TestWireTypesCoverTheContract(t *testing.T) {
	must.Require(t, len(contract.Fields) != 0, "the contract has no fields")
	for _, w := range wires {
		known := map[string]string{}
		describe(reflect.TypeOf(w.wire), "", known)
		omitted := omittedMembers[w.api][w.resource]
		stated := map[string]bool{}
		for _, f := range contract.Fields {
			if f.API != w.api || f.Resource != w.resource {
				continue
			}
			stated[f.Path] = true
			kind, ok := known[f.Path]
			switch {
			case !ok && omitted[f.Path] == "":
				t.Errorf("%s %s: %s is unknown to %T", w.api, w.resource, f.Path, w.wire)
			case ok && kind != f.Type && kind != "any" && omitted[f.Path] == "":
				t.Errorf("%s %s: %s is %s, and %s in %T", w.api, w.resource, f.Path, f.Type, kind, w.wire)
			}
		}
		for path := range known {
			must.Hold(t, stated[path], w.api, w.resource, "the contract lacks", path, "of", reflect.TypeOf(w.wire))
		}
		for path := range omitted {
			must.Hold(t, stated[path], w.api, w.resource, path, "is in omittedMembers, and the contract lacks it")
		}
	}
}

// If a member has the wrong type, the error names its JSON path, and no Go type.
func TestMembersOfAWrongType(t *testing.T) {
	values := map[string]string{"string": `"x"`, "integer": `7`, "number": `1.5`, "boolean": `true`, "array": `[[]]`, "object": `{"x":{}}`}
	for _, w := range wires {
		known := map[string]string{}
		describe(reflect.TypeOf(w.wire), "", known)
		for path, want := range known {
			for got, value := range values {
				if want == got || want == "any" || want == "map" && got == "object" || want == "number" && got == "integer" || w.api == contract.Jobs && path == "error" {
					continue
				}
				text := value
				for _, name := range slices.Backward(strings.Split(path, ".")) {
					inner, isList := strings.CutSuffix(name, "[]")
					if isList {
						text = "[" + text + "]"
					}
					text = `{"` + inner + `":` + text + `}`
				}
				err := httpclient.Decode([]byte(text), reflect.New(reflect.TypeOf(w.wire)).Interface())
				location := "$." + strings.ReplaceAll(path, "[]", "[0]") + " "
				must.Hold(t, err != nil && (strings.HasPrefix(err.Error(), location) || strings.HasPrefix(err.Error(), "$ has a string where")) && !strings.Contains(err.Error(), "json:"),
					w.api, w.resource, "expected an error at", location, "for", text, "and got", err)
			}
		}
	}
}

// Requests have every member that an operation accepts, and no other.
func TestBodiesMatchTheContract(t *testing.T) {
	for _, w := range wires {
		for use, bodies := range map[contract.Use][]any{contract.Create: w.creates, contract.Update: w.updates} {
			if bodies == nil {
				continue
			}
			mapPaths := map[string]bool{} // paths of maps, whose keys the user chooses
			accepted := map[string]bool{}
			for _, f := range contract.FieldsOf(w.api, w.resource, use) {
				accepted[f.Path] = true
				mapPaths[f.Path] = f.Type == "map" || f.Path == "input"
			}
			sent := map[string]bool{}
			for _, body := range bodies {
				encoded := must.Do(json.Marshal(body))(t)
				var decoded any
				must.Succeed(t, json.Unmarshal(encoded, &decoded))
				walk(decoded, "", mapPaths, sent)
			}
			for path := range sent {
				must.Hold(t, accepted[path], w.api, w.resource, "use", use, "says", path, "which the operation does not take")
			}
			for path := range accepted {
				must.Hold(t, sent[path] || omittedMembers[w.api][w.resource][path] != "", w.api, w.resource, "use", use, "no body of `wires` has", path,
					": set it in the object from which the body is made (above), let the client's create or update carry it, or name it in `omittedMembers` with the reason")
			}
		}
	}
}

// describe collects the paths of a wire type's members, with their JSON types.
func describe(typ reflect.Type, prefix string, types map[string]string) {
	for _, f := range reflect.VisibleFields(typ) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		path, inner := prefix+name, f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		types[path] = jsonType(inner)
		switch types[path] {
		case "object":
			describe(inner, path+".", types)
		case "array":
			if inner.Elem().Kind() == reflect.Struct {
				describe(inner.Elem(), path+"[].", types)
			}
		}
	}
}

func jsonType(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return "any"
	case reflect.TypeFor[json.Number]():
		return "number"
	}
	return cmp.Or(map[reflect.Kind]string{
		reflect.String: "string", reflect.Int: "integer", reflect.Int64: "integer", reflect.Float64: "number", reflect.Bool: "boolean",
		reflect.Map: "map", reflect.Slice: "array", reflect.Struct: "object",
	}[t.Kind()], t.String())
}

// walk collects the paths of a body's members. It doesn't walk into the maps at mapPaths.
func walk(v any, path string, mapPaths, paths map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			inner := strings.TrimPrefix(path+"."+name, ".")
			paths[inner] = true
			if !mapPaths[inner] {
				walk(member, inner, mapPaths, paths)
			}
		}
	case []any:
		for _, element := range v {
			walk(element, path+"[]", mapPaths, paths)
		}
	}
}

const fuzzedKey = "planted-k3y/of+the=<client>&"

// Any successful answer is either decoded, or causes an error without the key.
func FuzzAnswer(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, v1 bool, text string) {
		version := V2
		if v1 {
			version = V1
		}
		c := must.Do(New(Settings{BaseURL: "http://deployment", APIKey: fuzzedKey, Version: version, Transport: fixedAnswer(strings.ReplaceAll(text, "$KEY", fuzzedKey))}))(t)
		_, templates := c.Templates.Get(t.Context(), "a")
		_, volumes := c.NetworkVolumes.Get(t.Context(), "a")
		_, endpoints := c.Endpoints.Get(t.Context(), "a")
		_, auths := c.RegistryAuths.List(t.Context())
		_, jobs := c.Jobs.Status(t.Context(), "a", "b")
		for _, err := range []error{templates, volumes, endpoints, auths, jobs} {
			must.Hold(t, err == nil || !strings.Contains(err.Error(), fuzzedKey), text, "the key is in", err)
		}
	},
		fuzz.Seed{false, `{"id":"a","name":"t","image":"i","args":"a 'b","disk":50,"env":{"A":"1"},"ports":["80/http"],"registry":{"id":"r"},"mounts":{"persistent":{"size":1,"path":"/w"}},"category":"CPU"}`},
		fuzz.Seed{true, `{"id":"a","name":"t","imageName":"i","dockerStartCmd":["x"],"env":{"A":"$KEY"},"containerDiskInGb":5,"volumeInGb":20,"volumeMountPath":"/w"}`},
		fuzz.Seed{false, `{"registries":[{"id":"a","name":"$KEY"}],"networkVolumes":[{"id":"a"}]}`}, fuzz.Seed{true, `[{"id":"a","name":"r"}]`},
		fuzz.Seed{false, `{"id":"a","name":"e","type":"QUEUE","gpu":{"pools":["ADA_24"],"count":1},"workers":{"min":0,"max":3},"scaling":{"type":"QUEUE_DELAY","queueDelay":4},"networkVolumes":[{"id":"v"}],"templateId":null}`},
		fuzz.Seed{false, `{"id":"b","status":"COMPLETED","output":{"a":[1]},"delayTime":1,"executionTime":2}`},
	)
}

// fixedAnswer is a transport that answers each request with a text.
type fixedAnswer string

func (a fixedAnswer) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(a))), Request: r}, nil
}

package mgmt_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/mgmt"
)

// fuzzServer is a management API that a fuzz test calls without a network.
type fuzzServer struct{ http.Handler }

func newFuzzServer(f *testing.F) fuzzServer {
	f.Helper()
	return fuzzServer{must.Do(mgmt.New(f.Context(), newConfig(f)))(f)}
}

// send sends a request. The answer is JSON in its version's form, without the key and not an internal error.
func (d fuzzServer) send(t *testing.T, method, target, body string) (status int, answer any, text string) {
	t.Helper()
	r := fuzz.Request(t, "Bearer "+testKey, method, target, body)
	if r == nil {
		return http.StatusBadRequest, nil, ""
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	status, text = w.Code, w.Body.String()
	switch {
	case status >= 500 && status != http.StatusNotImplemented:
		t.Errorf("%s %q is answered %d %s", method, target, status, text)
	case strings.Contains(text, testKey):
		t.Errorf("%s %q: the answer has the key", method, target)
	case status == http.StatusNoContent:
		return status, nil, text
	case !utf8.ValidString(text) || json.Unmarshal([]byte(text), &answer) != nil:
		t.Errorf("%s %q is answered %d with invalid JSON: %q", method, target, status, text)
	case status >= 300:
		checkErrorForm(t, strings.HasPrefix(r.URL.Path, "/v1/") || r.URL.Path == "/v1", w, answer)
	}
	return status, answer, text
}

func checkErrorForm(t *testing.T, v1 bool, w *httptest.ResponseRecorder, answer any) {
	t.Helper()
	object, _ := answer.(map[string]any)
	if v1 {
		message, _ := object["message"].(string)
		must.Hold(t, message != "" && len(object) == 1, w.Code, w.Body, "expected an error in the form of version 1")
		return
	}
	title, _ := object["title"].(string)
	_, detail := object["detail"].(string)
	must.Hold(t, title != "" && detail && object["status"] == float64(w.Code) && w.Header().Get("Content-Type") == "application/problem+json", w.Code, w.Header(), w.Body, "expected an error in the form of version 2")
}

// state returns the texts of the lists, which show each object that the fuzz tests create.
func (d fuzzServer) state(t *testing.T) string {
	t.Helper()
	var answers strings.Builder
	for _, path := range []string{"/v1/templates", "/v1/endpoints", "/v2/templates", "/v2/serverless", "/v2/network-volumes", "/v2/registries", "/v2/registries/delegations"} {
		_, _, text := d.send(t, "GET", path, "")
		answers.WriteString(text)
	}
	return answers.String()
}

func (d fuzzServer) create(t *testing.T, path, body string) string {
	t.Helper()
	_, answer, text := d.send(t, "POST", path, body)
	object, _ := answer.(map[string]any)
	id, _ := object["id"].(string)
	must.Require(t, id != "", "POST", path, text)
	return id
}

type writeOperation struct {
	method, path string
	objectPath   string // path of an object without its id
}

var writeOperations = []writeOperation{
	{"POST", "/v1/templates", "/v1/templates/"}, {"PATCH", "/v1/templates/$T", "/v1/templates/"}, {"POST", "/v1/templates/$T/update", "/v1/templates/"},
	{"POST", "/v1/networkvolumes", "/v1/networkvolumes/"}, {"PATCH", "/v1/networkvolumes/$V", "/v1/networkvolumes/"}, {"POST", "/v1/networkvolumes/$V/update", "/v1/networkvolumes/"},
	{"POST", "/v1/containerregistryauth", "/v1/containerregistryauth/"},
	{"POST", "/v1/endpoints", "/v1/endpoints/"}, {"PATCH", "/v1/endpoints/$E", "/v1/endpoints/"}, {"POST", "/v1/endpoints/$E/update", "/v1/endpoints/"},
	{"POST", "/v2/templates", "/v2/templates/"}, {"PATCH", "/v2/templates/$T", "/v2/templates/"},
	{"POST", "/v2/network-volumes", "/v2/network-volumes/"}, {"PATCH", "/v2/network-volumes/$V", "/v2/network-volumes/"},
	{"POST", "/v2/registries", "/v2/registries/"},
	{"POST", "/v2/serverless", "/v2/serverless/"}, {"PATCH", "/v2/serverless/$E", "/v2/serverless/"},
}

const plantedPassword = "planted-s3cret-password"

// A read returns the object that the write answered. A rejected body changes nothing, and no answer has a password.
func FuzzBodies(f *testing.F) {
	d := newFuzzServer(f)
	fuzz.Run(f, func(t *testing.T, operation uint8, body string) {
		op := writeOperations[int(operation)%len(writeOperations)]
		v, r := d.create(t, "/v2/network-volumes", `{"name":"v","size":10,"dataCenter":"EU-RO-1"}`), d.create(t, "/v2/registries", `{"name":"auth","username":"u","password":"`+plantedPassword+`"}`)
		template := d.create(t, "/v2/templates", `{"name":"the template","image":"i","serverless":true,"mounts":{}}`)
		e := d.create(t, "/v2/serverless", `{"name":"e","image":"i"}`)
		fixtures := []string{"/v2/serverless/" + e, "/v2/templates/" + template, "/v2/registries/" + r, "/v2/network-volumes/" + v}
		placeholders := strings.NewReplacer("$T", template, "$V", v, "$R", r, "$E", e)
		path, body := placeholders.Replace(op.path), placeholders.Replace(body)

		before := d.state(t)
		status, answer, text := d.send(t, op.method, path, body)
		var created []string
		if status >= 300 {
			must.Equal(t, d.state(t), before, "the state after a rejected", op.method, path, body, status)
		} else {
			object, _ := answer.(map[string]any)
			id, _ := object["id"].(string)
			_, read, readText := d.send(t, "GET", op.objectPath+url.PathEscape(id), "")
			must.Hold(t, id != "" && reflect.DeepEqual(read, answer), op.method, path, body, "is answered", text, "and read as", readText)
			must.Equal(t, firstDifference(body, object), "", op.method, path, body, "is answered with")
			if op.method == "POST" && !strings.HasSuffix(op.path, "/update") {
				created = []string{op.objectPath + id}
			}
		}
		after := d.state(t)
		must.Hold(t, !strings.Contains(after+text, plantedPassword) || strings.Count(body, plantedPassword) != strings.Count(body, `"password":"`+plantedPassword), op.method, path, body, "the password is shown in", text, after)
		for _, object := range append(created, fixtures...) {
			status, _, text := d.send(t, "DELETE", object, "")
			must.Hold(t, status == http.StatusNoContent, "DELETE", object, "is answered", status, text)
		}
	},
		fuzz.Seed{uint8(0), `{"name":"t","imageName":"i:1","category":"CPU","containerDiskInGb":7,"containerRegistryAuthId":"$R","dockerEntrypoint":["/bin/sh","-c"],"dockerStartCmd":["echo","a b","","it's"],"env":{"A":"","Ä":"ö \"x\""},"isPublic":true,"isServerless":true,"ports":["80/http"],"readme":"# r","volumeInGb":0,"volumeMountPath":"/w"}`},
		fuzz.Seed{uint8(1), `{"name":"t2","imageName":"i:2","env":{},"dockerStartCmd":[],"ports":["8888/http","22/tcp"],"containerRegistryAuthId":""}`},
		fuzz.Seed{uint8(2), `{"containerDiskInGb":9,"readme":null}`},
		fuzz.Seed{uint8(3), `{"name":"v","size":10,"dataCenterId":"EU-RO-1"}`},
		fuzz.Seed{uint8(4), `{"name":"w"}`},
		fuzz.Seed{uint8(5), `{"name":"w","size":4000}`},
		fuzz.Seed{uint8(6), `{"name":"r","username":"u","password":"` + plantedPassword + `"}`},
		fuzz.Seed{uint8(7), `{"templateId":"$T","name":"e","gpuTypeIds":["NVIDIA L4"],"gpuCount":2,"workersMin":0,"workersMax":3,"idleTimeout":5,"scalerType":"QUEUE_DELAY","scalerValue":4,"networkVolumeId":"$V","executionTimeoutMs":600000,"flashboot":true,"allowedCudaVersions":["12.4"]}`},
		fuzz.Seed{uint8(8), `{"workersMax":1,"computeType":"CPU","cpuFlavorIds":["cpu3c"],"vcpuCount":4,"networkVolumeIds":["$V"]}`},
		fuzz.Seed{uint8(10), `{"name":"t","image":"i","args":"a 'b c'","disk":1,"env":{"A":"1"},"ports":["80/http"],"registry":"$R","mounts":{"persistent":{"size":20,"path":"/w"}},"public":false,"serverless":false,"category":"NVIDIA","startSsh":false,"startJupyter":true,"allowedCudaVersions":["12.4"]}`},
		fuzz.Seed{uint8(11), `{"name":"t3","registry":null,"env":{"B":""}}`},
		fuzz.Seed{uint8(12), `{"name":"v","size":10,"dataCenter":"EU-RO-1","type":"STANDARD"}`},
		fuzz.Seed{uint8(13), `{"size":1e2}`},
		fuzz.Seed{uint8(14), `{"name":"r","username":"u","password":"` + plantedPassword + `"}`},
		fuzz.Seed{uint8(15), `{"name":"e","type":"QUEUE","image":"i","args":"-v","disk":1,"env":{"A":"1"},"ports":["80/http"],"gpu":{"pools":["ADA_24","not known"],"excludedTypes":[" NVIDIA L4"],"count":2,"minCudaVersion":"12.11","allowedCudaVersions":[]},"workers":{"min":1,"max":2,"idleTimeout":60},"scaling":{"type":"REQUEST_COUNT","requestCount":3},"dataCenterIds":["EU-RO-1"],"networkVolumes":["$V"],"timeout":60000,"flashboot":"FLASHBOOT"}`},
		fuzz.Seed{uint8(15), `{"templateId":"$T"}`},
		fuzz.Seed{uint8(16), `{"name":"e","cpu":{"flavors":["cpu3c"],"vcpuCount":4},"registry":"$R"}`},
	)
}

// firstDifference describes a member whose value in the answer differs from the request, or returns
// "". It ignores omitted members, null, and values that the API may rewrite.
func firstDifference(body string, answer map[string]any) string {
	var request map[string]any
	if json.NewDecoder(strings.NewReader(body)).Decode(&request) != nil {
		return ""
	}
	for name, want := range request {
		got, present := answer[name]
		if !present || want == nil || got == nil {
			continue
		}
		switch want.(type) {
		case string, bool, float64:
		default:
			if name != "env" {
				continue
			}
		}
		if !reflect.DeepEqual(got, want) {
			return fmt.Sprintf("%s %v, and not %v", name, got, want)
		}
	}
	return ""
}

// For any path and query, the API answers in its own form. Without a body, only deletes change something.
func FuzzPaths(f *testing.F) {
	d := newFuzzServer(f)
	fuzz.Run(f, func(t *testing.T, method, target string) {
		template := d.create(t, "/v2/templates", `{"name":"the template","image":"i"}`)
		before := d.state(t)
		path := strings.ReplaceAll(target, "$T", template)
		status, _, _ := d.send(t, method, path, "")
		after := d.state(t)
		must.Hold(t, method == "DELETE" && status == http.StatusNoContent || after == before, method, path, "answered", status, "changed", before, "to", after)
		must.Hold(t, method == "GET" || method == "HEAD" || method == "DELETE" || status >= 300, method, path, "without a body is answered", status)
		d.send(t, "DELETE", "/v2/templates/"+template, "")
	},
		fuzz.Seed{"GET", "/v2/templates/$T"}, fuzz.Seed{"DELETE", "/v2/templates/$T"}, fuzz.Seed{"HEAD", "/v1/templates/$T?x=1"}, fuzz.Seed{"POST", "/v1/templates/$T/update"},
		fuzz.Seed{"GET", "/v2/catalog/gpus?include=AVAILABILITY&product=SERVERLESS&gpuCount=2&minCudaVersion=12.4"},
		fuzz.Seed{"GET", "/v2/catalog/cpus?include=AVAILABILITY&product=POD"}, fuzz.Seed{"GET", "/v2/catalog/datacenters/EU-RO-1"}, fuzz.Seed{"GET", "/v2/catalog/gpus/NVIDIA%20L4"},
		fuzz.Seed{"GET", "/v2/serverless/x/workers/y/logs?tail=10&follow=false"}, fuzz.Seed{"GET", "/v2/serverless/x/releases"},
		fuzz.Seed{"GET", "/v2/registries/delegations"}, fuzz.Seed{"DELETE", "/v2/registries/delegations/$T"}, fuzz.Seed{"PATCH", "/v1/endpoints/x"}, fuzz.Seed{"GET", "/v2/openapi.json"}, fuzz.Seed{"GET", "/v1/pods?computeType=CPU&dataCenterId=x&includeMachine=true"}, fuzz.Seed{"POST", "/v1/pods/x/reset"}, fuzz.Seed{"GET", "/v2/pods?includeClusterPods=true"}, fuzz.Seed{"GET", "/v2/pods/x/logs?tail=1"}, fuzz.Seed{"POST", "/v2/pods/x/action"}, fuzz.Seed{"PUT", "/v2/registries/../templates"},
	)
}

package openapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// sampleValues are valid values for members whose schema doesn't describe them fully.
var sampleValues = map[string]any{
	"templateId": "%template%", "registry": "%registry%", "containerRegistryAuthId": "%registry%",
	"networkVolumeId": "%volume%", "networkVolumeIds": []any{"%volume%"}, "networkVolumes": []any{"%volume%"},
	"dataCenter": "EU-RO-1", "dataCenterId": "EU-RO-1", "dataCenterIds": []any{"EU-RO-1"},
	"resource": "arn:aws:ecr:us-east-2:418399314813:repository/team/image",
	"action":   "stop", // valid for a new pod
	"path":     "/data", "volumeMountPath": "/data", "ports": []any{"80/http"}, "size": 10, "timeout": 5000, "executionTimeoutMs": 5000,
	"pools": []any{"ADA_24"}, "excludedTypes": []any{"NVIDIA L4"}, "allowedCudaVersions": []any{"12.8"}, "minCudaVersion": "12.8",
	"keys":         []any{"ssh-ed25519 AAAA"},
	"countryCodes": []any{"US"}, "cudaVersions": []any{"12.8"}, "since": "2026-06-01T12:05:04Z", "Last-Event-ID": "2026-06-01T12:05:04Z",
}

// absent removes a member that the schema requires, but the server doesn't if the body has another one, as
// imageName in place of templateId.
const absent = "%absent%"

// bases are, by path, the optional members of valid bodies. Members that exclude each other are in different bodies.
var bases = map[string][]map[string]any{
	"/v2/serverless": {
		{"image": "i", "gpu": map[string]any{"pools": []any{"ADA_24"}}, "scaling": map[string]any{"type": "QUEUE_DELAY", "queueDelay": 4}},
		{"image": "i", "cpu": []any{map[string]any{"id": "cpu3c", "vcpuCount": 2}}, "scaling": map[string]any{"type": "REQUEST_COUNT", "requestCount": 4}},
		{"image": "i", "gpu": map[string]any{"pools": []any{"ADA_24"}}, "type": "LOAD_BALANCER", "scaling": map[string]any{"type": "REQUEST_COUNT", "requestCount": 4}},
	},
	"/v1/endpoints": {
		{"gpuTypeIds": []any{"NVIDIA L4"}},
		{"gpuTypeIds": []any{"NVIDIA A30"}}, // in no pool
		{"computeType": "CPU", "cpuFlavorIds": []any{"cpu3c"}, "vcpuCount": 2},
	},
	"/v2/pods": {
		{"image": "i", "gpu": map[string]any{"id": "NVIDIA L4"}, "mounts": map[string]any{"persistent": map[string]any{"size": 10, "path": "/data"}}},
		{"image": "i", "cpu": map[string]any{"id": "cpu3c", "vcpuCount": 2}, "mounts": map[string]any{"network": []any{map[string]any{"volumeId": "%volume%", "path": "/data"}}}},
	},
	"/v1/pods": {
		{"imageName": "builtin/echo", "templateId": absent, "computeType": "CPU", "cpuFlavorIds": []any{"cpu3c"}, "vcpuCount": 2},
		{"imageName": "i", "templateId": absent, "gpuTypeIds": []any{"NVIDIA L4"}},
	},
	"/v2/clusters": {
		{"image": "i", "mounts": map[string]any{"persistent": map[string]any{"size": 10, "path": "/data"}}},
		{"image": "i", "mounts": map[string]any{"network": []any{map[string]any{"volumeId": "%volume%", "path": "/data"}}}},
	},
	"/v2/account/secrets/{id}": {{"description": "d"}},
	"/v2/templates":            {{}, {"mounts": map[string]any{"persistent": map[string]any{"size": 10, "path": "/data"}}}},
}

// walker sends all requests to one operation.
type walker struct {
	*testing.T
	*scene
	*judge
	operation
	all    []operation
	report func(o operation, what string, r request, a answer)

	// bothWays also reports requests that the document allows and the server rejects as invalid.
	bothWays bool

	create  *operation // creates the objects of the operation; may be nil
	created int        // number of created objects, which use the bases in turn
	id      string     // id of the current object, or ""
}

func validBodies(o operation) (list []any) {
	ref := o.body()
	if ref == nil {
		return nil
	}
	sample, _ := flatten(ref).sample("").(map[string]any)
	if len(sample) == 0 && bases[o.path] == nil { // an update
		for _, member := range []string{"name", "action"} {
			if s, ok := flatten(ref).properties()[member]; ok {
				sample = map[string]any{member: s.sample(member)}
			}
		}
		return []any{sample}
	}
	extras := bases[o.path]
	if extras == nil {
		extras = []map[string]any{{}}
	}
	for _, extra := range extras {
		body := clone(sample).(map[string]any)
		maps.Copy(body, clone(extra).(map[string]any))
		maps.DeleteFunc(body, func(_ string, value any) bool { return value == absent })
		list = append(list, body)
	}
	return list
}

// object returns the id of an object of the operation, and creates it if necessary.
func (w *walker) object() string {
	w.Helper()
	collection, _, _ := strings.Cut(w.path, "/{")
	switch {
	case strings.Contains(w.path, "{workerId}"), strings.Contains(w.path, "{buildId}"):
		return w.endpoint
	case w.id != "":
	case w.create != nil:
		bodies := validBodies(*w.create)
		w.id = w.scene.create(w.T, collection, jsonText(bodies[w.created%len(bodies)]))
		if strings.HasSuffix(w.path, "/restart") {
			w.created = 0 // the first base can run
			w.awaitRunning(w.T, w.id)
			break
		}
		w.created++
	default:
		a := w.send(w.T, request{name: "list", method: "GET", path: collection})
		_, rest, found := bytes.Cut(a.body, []byte(`"id":"`))
		id, _, _ := bytes.Cut(rest, []byte(`"`))
		must.Require(w.T, found, collection, "returns an empty list:", string(a.body))
		w.id = string(id)
	}
	return w.id
}

// pathOf returns the operation's path with ids instead of parameters.
func (w *walker) pathOf(id string) string {
	path := strings.NewReplacer("{workerId}", cmp.Or(w.worker, "x"), "{buildId}", buildID).Replace(w.path)
	if before, rest, ok := strings.Cut(path, "{"); ok {
		_, after, _ := strings.Cut(rest, "}")
		return before + url.PathEscape(id) + after
	}
	return path
}

// ask sends a request, judges the response and reads changed objects back.
func (w *walker) ask(r request) answer {
	w.Helper()
	r.method = cmp.Or(r.method, w.method)
	if r.path == "" {
		r.path = w.path
		if strings.Contains(w.path, "{") {
			r.path = w.pathOf(w.object())
		}
	}
	r = w.prepared(r)
	a := w.sendJudged(r)
	if !a.success() {
		if w.bothWays && rejectsForm(a) && !outOfFormat(r) && len(w.faults(r)) == 0 {
			w.report(w.operation, "refuses "+r.part+": "+complaint(a), r, a)
		}
		return a
	}
	faults := w.faults(r)
	switch {
	case r.oneFinding && len(faults) > 0, r.invalid:
		w.report(w.operation, "accepts "+r.part, r, a)
	default:
		for _, fault := range faults {
			w.report(w.operation, "accepts "+r.part+": "+fault, r, a)
		}
	}
	collection, _, inside := strings.Cut(w.path, "/{")
	switch {
	case w.method == http.MethodPost && !inside:
		var response struct{ ID string }
		if json.Unmarshal(a.body, &response) == nil {
			w.readBack(r, collection, response.ID)
			w.send(w.T, request{method: "DELETE", path: w.path + "/" + response.ID})
		}
	case w.method == http.MethodDelete:
		w.id = ""
	case w.method != http.MethodGet:
		w.readBack(r, collection, w.id)
		w.id = "" // the object has changed
	}
	return a
}

// shortDivisor is what a short run divides the number of changed bodies by.
const shortDivisor = 24

// kindPaths are the paths of a kind in both versions.
var kindPaths = [][2]string{
	{"/v1/templates", "/v2/templates"}, {"/v1/networkvolumes", "/v2/network-volumes"},
	{"/v1/containerregistryauth", "/v2/registries"}, {"/v1/endpoints", "/v2/serverless"}, {"/v1/pods", "/v2/pods"},
}

// readBack reads an object through both versions and sends each response as an update, which must be accepted.
func (w *walker) readBack(cause request, collection, id string) {
	for _, pair := range kindPaths {
		if !slices.Contains(pair[:], collection) {
			continue
		}
		for _, path := range pair {
			other := *w
			read := w.objectOperation("GET", path)
			other.operation = *read
			r := request{name: "after " + cause.String(), method: "GET", path: path + "/" + id}
			a := other.sendJudged(r)
			update := w.objectOperation("PATCH", path)
			if !a.success() { // version 1 doesn't show a template that is bound to an endpoint
				continue
			}
			if update == nil || w.bothWays {
				continue
			}
			var body any
			must.Equal(w, json.Unmarshal(a.body, &body), nil, "error of the JSON of the answer to", r)
			other.operation = *update
			r.method, r.body = "PATCH", jsonText(flatten(update.body()).project(body))
			if a := other.sendJudged(r); !a.success() {
				what := cmp.Or(memberPath.FindString(string(a.body)), fmt.Sprint(a.status))
				other.report(other.operation, "refuses what it shows: "+what, r, a)
			}
		}
	}
}

// collectionOperation returns the operation with a method on the collection of the walker's object, or nil.
func (w *walker) collectionOperation(method string) *operation {
	before, _, inside := strings.Cut(w.path, "/{")
	i := slices.IndexFunc(w.all, func(o operation) bool { return inside && o.method == method && o.path == before })
	if i < 0 {
		return nil
	}
	return &w.all[i]
}

// memberPath matches the member that an error is about.
var memberPath = regexp.MustCompile(`\$(\.\w+)+`)

// objectOperation returns the operation on one object of a collection, or nil.
func (w *walker) objectOperation(method, collection string) *operation {
	i := slices.IndexFunc(w.all, func(o operation) bool {
		rest, ok := strings.CutPrefix(o.path, collection+"/{")
		return o.method == method && ok && !strings.Contains(rest, "/")
	})
	if i < 0 {
		return nil
	}
	return &w.all[i]
}

func (w *walker) sendJudged(r request) answer {
	w.Helper()
	a := w.send(w.T, r)
	for _, what := range w.differences(w.Context(), w.operation, a) {
		w.report(w.operation, what, r, a)
	}
	return a
}

func (o operation) route() *routers.Route {
	return &routers.Route{Spec: o.spec, Path: o.path, PathItem: o.item, Method: o.method, Operation: o.op}
}

func (w *walker) faults(r request) []string {
	ids := map[string]string{}
	for _, p := range w.parameters("path") {
		ids[p.Name] = "x"
	}
	err := openapi3filter.ValidateRequest(w.Context(), &openapi3filter.RequestValidationInput{
		Request: w.newRequest(w.T, r), PathParams: ids, QueryParams: r.query, Route: w.route(),
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true, MultiError: true},
	})
	if err == nil {
		return nil
	}
	return innermostFaults(err)
}

// askWithBothKeys sends a request with a full key and with a key for another endpoint.
func (w *walker) askWithBothKeys(r request) {
	w.Helper()
	w.ask(r)
	if w.isPublic() {
		return
	}
	r.key = scopedKey
	must.Equal(w, w.ask(r).status, http.StatusForbidden, "status of the answer to", r)
}

// walk sends all requests.
func (w *walker) walk() {
	bodies := validBodies(w.operation)
	valid := request{name: "good"}
	if bodies != nil {
		valid.body = jsonText(bodies[0])
	}
	w.sendWithEachKey(valid)
	if w.create != nil {
		for range validBodies(*w.create) { // an object of each base
			w.id = ""
			w.ask(valid)
		}
	}
	if strings.Contains(w.path, "{") {
		for _, id := range []string{"nothing", "a/b", "..", "ä ö", strings.Repeat("x", 2000), "%00", "\x00"} {
			r := valid
			r.name, r.path = "of an absent object", w.pathOf(id)
			w.askWithBothKeys(r)
		}
	}
	for _, p := range w.parameters("query") {
		w.sendQueries(p.Name)
	}
	for _, p := range w.parameters("header") {
		for _, c := range flatten(p.Schema).changes() {
			if value, ok := parameter(c.value); ok && !strings.ContainsAny(value, "\x00") {
				r := request{part: "header " + p.Name, name: c.name, header: http.Header{http.CanonicalHeaderKey(p.Name): {value}}}
				if strings.TrimSpace(value) == "" {
					r.part, r.oneFinding = "an empty header", true
				}
				w.askWithBothKeys(r)
			}
		}
	}
	w.askWithBothKeys(request{name: "with an unknown parameter", query: url.Values{"unknown": {"x"}}, body: valid.body})
	if bodies != nil {
		w.sendBodies(bodies)
	}
}

func (w *walker) sendWithEachKey(valid request) {
	for key, status := range map[string]int{ownKey: 0, userKey: 0, scopedKey: 403, "none": 401, "wrong": 401} {
		r := valid
		r.key = key
		if w.isPublic() {
			status = 0
		}
		a := w.ask(r)
		must.Hold(w, (status != 0 || a.success()) && (status == 0 || a.status == status), r, "was answered with", a.status, string(a.body), "expected", status, "where 0 is a success")
	}
}

func parameter(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case []any:
		var list []string
		for _, item := range v {
			text, ok := parameter(item)
			if !ok {
				return "", false
			}
			list = append(list, text)
		}
		return strings.Join(list, ","), len(list) > 0
	case nil, map[string]any:
		return "", false
	case json.RawMessage:
		return string(v), true
	}
	return fmt.Sprint(value), true
}

func (w *walker) sendQueries(name string) {
	var s schemas
	required := url.Values{} // parameters that others require
	for _, p := range w.parameters("query") {
		if p.Name == name {
			s = flatten(p.Schema)
		}
		if p.Name == "include" || p.Name == "product" {
			value, _ := parameter(flatten(p.Schema).sample(p.Name))
			required.Set(p.Name, value)
		}
	}
	changes := append(s.changes(), change{name: "good", value: s.sample(name)})
	for _, c := range s.items().changes() {
		changes = append(changes, change{name: "of " + c.name, value: []any{c.value}})
	}
	for _, c := range changes {
		value, ok := parameter(c.value)
		if !ok {
			continue
		}
		for _, query := range []url.Values{{}, required} {
			query = maps.Clone(query)
			query.Set(name, strings.ReplaceAll(value, "%N%", "x"))
			r := request{part: "parameter " + name, name: c.name, query: query}
			if value == "" {
				r.part, r.oneFinding = "an empty parameter", true
			}
			w.askWithBothKeys(r)
		}
	}
}

func (w *walker) sendBodies(samples []any) {
	for n, base := range samples {
		a := w.ask(request{name: "good", body: jsonText(base)})
		must.Hold(w, a.success(), "the valid body", jsonText(base), "is rejected with", a.status, string(a.body))
		for i, m := range mutations(w.body(), base) {
			if testing.Short() && (i+n)%shortDivisor != 0 {
				continue
			}
			w.askWithBothKeys(request{part: m.at, name: m.name, body: jsonText(m.body)})
		}
	}
	valid := jsonText(samples[0])
	for _, body := range []string{
		"", " ", "{", `{"name":}`, "{}{}", valid + valid, valid + "x", "[" + valid + "]", "\"\xff\"", `{"` + "\xff" + `":1}`, "\xef\xbb\xbf" + valid,
		strings.Repeat("[", 20_000), strings.Repeat(`{"name":`, 20_000), `{"name":"` + strings.Repeat("x", 1<<20) + `"}`,
		"<xml/>",
	} {
		if w.String() == "POST /v2/pods" && len(body) > 102_400 {
			continue // 413, before authentication
		}
		w.askWithBothKeys(request{part: "a body that is not JSON", body: body, invalid: true})
	}
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/xml", "application/json-patch+json", "/"} {
		w.askWithBothKeys(request{part: "another content type", oneFinding: true, name: kind, body: valid, header: http.Header{"Content-Type": {kind}}})
	}
	for _, kind := range []string{"application/json; charset=utf-8", "application/json"} {
		w.askWithBothKeys(request{name: "good", body: valid, header: http.Header{"Content-Type": {kind}}})
	}
}

package openapi

import (
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
)

// meaning are values for members whose schema does not tell which are good.
var meaning = map[string]any{
	"templateId": "%template%", "registry": "%registry%", "containerRegistryAuthId": "%registry%",
	"networkVolumeId": "%volume%", "networkVolumeIds": []any{"%volume%"}, "networkVolumes": []any{"%volume%"},
	"dataCenter": "EU-RO-1", "dataCenterId": "EU-RO-1", "dataCenterIds": []any{"EU-RO-1"},
	"resource": "arn:aws:ecr:us-east-2:418399314813:repository/team/image",
	"action":   "stop", // of a pod that is new
	"path":     "/data", "volumeMountPath": "/data", "ports": []any{"80/http"}, "size": 10, "timeout": 5000, "executionTimeoutMs": 5000,
	"pools": []any{"ADA_24"}, "excludedTypes": []any{"NVIDIA L4"}, "allowedCudaVersions": []any{"12.8"}, "minCudaVersion": "12.8",
	"keys":         []any{"ssh-ed25519 AAAA"},
	"countryCodes": []any{"US"}, "cudaVersions": []any{"12.8"}, "since": "2026-06-01T12:05:04Z", "Last-Event-ID": "2026-06-01T12:05:04Z",
}

// absent takes a member away that a schema requires only where another is missing.
const absent = "%absent%"

// bases are what a good body has beside the members that its schema requires;
// several, where one can't have all.
var bases = map[string][]map[string]any{
	"/v2/serverless": {
		{"image": "i", "gpu": map[string]any{"pools": []any{"ADA_24"}}, "scaling": map[string]any{"type": "QUEUE_DELAY", "queueDelay": 4}},
		{"image": "i", "cpu": []any{map[string]any{"id": "cpu3c", "vcpuCount": 2}}, "scaling": map[string]any{"type": "REQUEST_COUNT", "requestCount": 4}},
		{"image": "i", "gpu": map[string]any{"pools": []any{"ADA_24"}}, "type": "LOAD_BALANCER", "scaling": map[string]any{"type": "REQUEST_COUNT", "requestCount": 4}},
	},
	"/v1/endpoints": {
		{"gpuTypeIds": []any{"NVIDIA L4"}},
		{"gpuTypeIds": []any{"NVIDIA A30"}}, // of no pool
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

// walker asks one operation for everything.
type walker struct {
	*testing.T
	*scene
	*judge
	operation
	all    []operation
	differ func(o operation, what string, r request, a answer)

	// bothWays also reports a request that the document allows and the server finds
	// invalid.
	bothWays bool

	create *operation // that makes what the operation is about, nil for none
	made   int        // objects, by each base in turn
	id     string     // of one, "" for none
}

// good are bodies that the operation must take.
func good(o operation) (list []any) {
	ref := o.body()
	if ref == nil {
		return nil
	}
	sample, _ := flatten(ref).sample("").(map[string]any)
	if len(sample) == 0 && bases[o.path] == nil { // an update
		for _, member := range []string{"name", "action"} {
			if of, ok := flatten(ref).properties()[member]; ok {
				sample = map[string]any{member: of.sample(member)}
			}
		}
		return []any{sample}
	}
	more := bases[o.path]
	if more == nil {
		more = []map[string]any{{}}
	}
	for _, with := range more {
		body := clone(sample).(map[string]any)
		maps.Copy(body, clone(with).(map[string]any))
		maps.DeleteFunc(body, func(_ string, value any) bool { return value == absent })
		list = append(list, body)
	}
	return list
}

func text(body any) string {
	out, err := json.Marshal(body)
	if err != nil {
		panic(err) // a mutation is always JSON
	}
	return string(out)
}

// object is the id of what the operation is about, made by a base.
func (w *walker) object() string {
	w.Helper()
	collection, _, _ := strings.Cut(w.path, "/{")
	switch {
	case strings.Contains(w.path, "{workerId}"), strings.Contains(w.path, "{buildId}"):
		return w.endpoint
	case w.id != "":
	case w.create != nil:
		bodies := good(*w.create)
		w.id = w.scene.create(w.T, collection, text(bodies[w.made%len(bodies)]))
		if strings.HasSuffix(w.path, "/restart") {
			w.made = 0 // one that can run
			w.awaitRunning(w.T, w.id)
			break
		}
		w.made++
	default:
		w.id = w.firstIn(w.T, collection)
	}
	return w.id
}

// at is the path with ids in the place of its parameters.
func (w *walker) at(id string) string {
	path := strings.NewReplacer("{workerId}", cmp.Or(w.worker, "x"), "{buildId}", buildID).Replace(w.path)
	if before, rest, ok := strings.Cut(path, "{"); ok {
		_, after, _ := strings.Cut(rest, "}")
		return before + url.PathEscape(id) + after
	}
	return path
}

// ask sends a request, and judges the answer.
func (w *walker) ask(r request) answer {
	w.Helper()
	if r.method == "" {
		r.method = w.method
	}
	if r.path == "" {
		r.path = w.path
		if strings.Contains(w.path, "{") {
			r.path = w.at(w.object())
		}
	}
	r = w.prepared(r)
	a := w.judged(r)
	if !a.success() {
		if w.bothWays && invalid(a) && !outOfFormat(r) && len(w.faults(r)) == 0 {
			w.differ(w.operation, "refuses "+r.at+": "+complaint(a), r, a)
		}
		return a
	}
	faults := w.faults(r)
	switch {
	case r.whole && len(faults) > 0, r.invalid:
		w.differ(w.operation, "accepts "+r.at, r, a)
	default:
		for _, fault := range faults {
			w.differ(w.operation, "accepts "+r.at+": "+fault, r, a)
		}
	}
	collection, _, inside := strings.Cut(w.path, "/{")
	switch {
	case w.method == http.MethodPost && !inside:
		var made struct{ ID string }
		if json.Unmarshal(a.body, &made) == nil {
			w.shown(r, collection, made.ID)
			w.send(w.T, request{method: "DELETE", path: w.path + "/" + made.ID})
		}
	case w.method == http.MethodDelete:
		w.id = ""
	case w.method != http.MethodGet:
		w.shown(r, collection, w.id)
		w.id = "" // it is not as it was
	}
	return a
}

// shortOf is which part of the changed bodies go test -short sends, one of so
// many.
const shortOf = 24

// twins are where a kind is in each version.
var twins = [][2]string{
	{"/v1/templates", "/v2/templates"}, {"/v1/networkvolumes", "/v2/network-volumes"},
	{"/v1/containerregistryauth", "/v2/registries"}, {"/v1/endpoints", "/v2/serverless"}, {"/v1/pods", "/v2/pods"},
}

// shown reads what a request made or changed through both versions, and sends
// back what each shows: an update that changes nothing is taken.
func (w *walker) shown(cause request, collection, id string) {
	for _, pair := range twins {
		if !slices.Contains(pair[:], collection) {
			continue
		}
		for _, twin := range pair {
			other := *w
			read := w.find("GET", twin)
			other.operation = *read
			r := request{name: "after " + cause.String(), method: "GET", path: twin + "/" + id}
			a := other.judged(r)
			update := w.find("PATCH", twin)
			if !a.success() || update == nil || w.bothWays {
				continue // a template that an endpoint has is not shown by version 1
			}
			var body any
			if err := json.Unmarshal(a.body, &body); err != nil {
				w.Errorf("%v: %v", r, err)
			}
			other.operation = *update
			r.method, r.body = "PATCH", text(flatten(update.body()).project(body))
			if a := other.judged(r); !a.success() {
				what := refused.FindString(string(a.body))
				if what == "" {
					what = fmt.Sprint(a.status)
				}
				other.differ(other.operation, "refuses what it shows: "+what, r, a)
			}
		}
	}
}

// collection is the operation on the collection that the walker's is about a
// thing of, nil for none.
func (w *walker) collection(method string) *operation {
	before, _, inside := strings.Cut(w.path, "/{")
	i := slices.IndexFunc(w.all, func(o operation) bool { return inside && o.method == method && o.path == before })
	if i < 0 {
		return nil
	}
	return &w.all[i]
}

// refused finds the member that a refusal is about.
var refused = regexp.MustCompile(`\$(\.\w+)+`)

// find is the operation on one thing of a collection, nil for none.
func (w *walker) find(method, collection string) *operation {
	i := slices.IndexFunc(w.all, func(o operation) bool {
		rest, ok := strings.CutPrefix(o.path, collection+"/{")
		return o.method == method && ok && !strings.Contains(rest, "/")
	})
	if i < 0 {
		return nil
	}
	return &w.all[i]
}

// judged sends a request as it stands, and judges the answer.
func (w *walker) judged(r request) answer {
	w.Helper()
	a := w.send(w.T, r)
	for _, what := range w.differences(w.Context(), w.operation, a) {
		w.differ(w.operation, what, r, a)
	}
	return a
}

func (o operation) route() *routers.Route {
	return &routers.Route{Spec: o.spec, Path: o.path, PathItem: o.item, Method: o.method, Operation: o.op}
}

// faults are what the document finds wrong with a request.
func (w *walker) faults(r request) []string {
	ids := map[string]string{}
	for _, p := range w.parameters("path") {
		ids[p.Name] = "x"
	}
	err := openapi3filter.ValidateRequest(w.Context(), &openapi3filter.RequestValidationInput{
		Request: w.make(w.T, r), PathParams: ids, QueryParams: r.query, Route: w.route(),
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true, MultiError: true},
	})
	if err == nil {
		return nil
	}
	return leaves(err)
}

// askWithBothKeys sends a request with a key for everything, and with one for something
// else.
func (w *walker) askWithBothKeys(r request) {
	w.Helper()
	w.ask(r)
	if w.public() {
		return
	}
	r.key = scoped
	if a := w.ask(r); a.status != http.StatusForbidden {
		w.Errorf("%v: %d, want 403", r, a.status)
	}
}

// walk asks for everything.
func (w *walker) walk() {
	bodies := good(w.operation)
	plain := request{name: "good"}
	if bodies != nil {
		plain.body = text(bodies[0])
	}
	w.kinds(plain)
	if w.create != nil {
		for range good(*w.create) { // things of each base
			w.id = ""
			w.ask(plain)
		}
	}
	if strings.Contains(w.path, "{") {
		for _, id := range []string{"nothing", "a/b", "..", "ä ö", strings.Repeat("x", 2000), "%00", "\x00"} {
			r := plain
			r.name, r.path = "of an absent object", w.at(id)
			w.askWithBothKeys(r)
		}
	}
	for _, p := range w.parameters("query") {
		w.queries(p.Name)
	}
	for _, p := range w.parameters("header") {
		for _, c := range flatten(p.Schema).changes() {
			if value, ok := parameter(c.value); ok && !strings.ContainsAny(value, "\x00") {
				r := request{at: "header " + p.Name, name: c.name, header: http.Header{http.CanonicalHeaderKey(p.Name): {value}}}
				if strings.TrimSpace(value) == "" {
					r.at, r.whole = "an empty header", true
				}
				w.askWithBothKeys(r)
			}
		}
	}
	w.askWithBothKeys(request{name: "with an unknown parameter", query: url.Values{"unknown": {"x"}}, body: plain.body})
	if bodies != nil {
		w.bodies(bodies)
	}
}

// kinds sends a good request with each kind of key.
func (w *walker) kinds(plain request) {
	for key, status := range map[string]int{own: 0, user: 0, scoped: 403, "none": 401, "wrong": 401} {
		r := plain
		r.key = key
		if w.public() {
			status = 0
		}
		if a := w.ask(r); status == 0 && !a.success() || status != 0 && a.status != status {
			w.Errorf("%v: %d %s", r, a.status, a.body)
		}
	}
}

// parameter is the form of a value in a query or header.
func parameter(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case []any:
		var list []string
		for _, item := range v {
			one, ok := parameter(item)
			if !ok {
				return "", false
			}
			list = append(list, one)
		}
		return strings.Join(list, ","), len(list) > 0
	case nil, map[string]any:
		return "", false
	case json.RawMessage:
		return string(v), true
	}
	return fmt.Sprint(value), true
}

func (w *walker) queries(name string) {
	var s schemas
	with := url.Values{}
	for _, p := range w.parameters("query") {
		of := flatten(p.Schema)
		if p.Name == name {
			s = of
		}
		switch p.Name { // what the others need
		case "include", "product":
			value, _ := parameter(of.sample(p.Name))
			with.Set(p.Name, value)
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
		for _, query := range []url.Values{{}, with} {
			query = maps.Clone(query)
			query.Set(name, strings.ReplaceAll(value, "%N%", "x"))
			r := request{at: "parameter " + name, name: c.name, query: query}
			if value == "" {
				r.at, r.whole = "an empty parameter", true
			}
			w.askWithBothKeys(r)
		}
	}
}

func (w *walker) bodies(bases []any) {
	for n, base := range bases {
		if a := w.ask(request{name: "good", body: text(base)}); !a.success() {
			w.Errorf("%s is refused: %d %s", text(base), a.status, a.body)
		}
		for i, m := range mutations(w.body(), base) {
			if testing.Short() && (i+n)%shortOf != 0 {
				continue
			}
			w.askWithBothKeys(request{at: m.at, name: m.name, body: text(m.body)})
		}
	}
	plain := text(bases[0])
	for _, body := range []string{
		"", " ", "{", `{"name":}`, "{}{}", plain + plain, plain + "x", "[" + plain + "]", "\"\xff\"", `{"` + "\xff" + `":1}`, "\xef\xbb\xbf" + plain,
		strings.Repeat("[", 20_000), strings.Repeat(`{"name":`, 20_000), `{"name":"` + strings.Repeat("x", 1<<20) + `"}`,
		"<xml/>",
	} {
		if w.String() == "POST /v2/pods" && len(body) > 102_400 {
			continue // 413, before the key is read
		}
		w.askWithBothKeys(request{at: "a body that is not JSON", body: body, invalid: true})
	}
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/xml", "application/json-patch+json", "/"} {
		w.askWithBothKeys(request{at: "another content type", whole: true, name: kind, body: plain, header: http.Header{"Content-Type": {kind}}})
	}
	for _, kind := range []string{"application/json; charset=utf-8", "application/json"} {
		w.askWithBothKeys(request{name: "good", body: plain, header: http.Header{"Content-Type": {kind}}})
	}
}

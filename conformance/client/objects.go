package client

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// kind is a kind of management objects, as each version of the API has it.
type kind struct {
	name   string
	path   string // of the list
	member string // of a list's answer; "" where the answer is the array
	unique bool   // names are
	hidden []string
	fills  map[string]any // what a creation may leave out
}

// Kinds of both versions.
var kinds = []kind{
	{name: "template", path: "/v2/templates", member: "templates", unique: true, fills: map[string]any{
		"disk": 50, "category": "NVIDIA", "public": false, "serverless": false, "startSsh": true, "startJupyter": true,
	}},
	{name: volumes, path: "/v2/network-volumes", member: "networkVolumes", fills: map[string]any{"type": "STANDARD"}},
	{name: "registry auth", path: "/v2/registries", member: "registries", unique: true, hidden: []string{"username", "password"}},
	{name: "endpoint", path: "/v2/serverless", member: "endpoints", fills: map[string]any{
		"type": "QUEUE", "workers": map[string]any{"min": 0, "max": 3, "idleTimeout": 5}, "scaling": map[string]any{"type": "QUEUE_DELAY", "value": 4},
		"flashboot": "OFF", "timeout": 0,
	}},
	{name: "template", path: "/v1/templates", unique: true, fills: map[string]any{
		"containerDiskInGb": 50, "category": "NVIDIA", "isPublic": false, "isServerless": false, "readme": "", "volumeInGb": 20,
		"volumeMountPath": "/workspace",
	}},
	{name: volumes, path: "/v1/networkvolumes"},
	{name: "registry auth", path: "/v1/containerregistryauth", unique: true, hidden: []string{"username", "password"}},
	{name: "endpoint", path: "/v1/endpoints", fills: map[string]any{
		"workersMin": 0, "workersMax": 3, "idleTimeout": 5, "scalerType": "QUEUE_DELAY", "scalerValue": 4, "flashboot": false,
	}},
}

const volumes = "network volume"

// kindAt is the kind whose list, object or update a path is.
func kindAt(path string) (k kind, id string, ok bool) {
	for _, k := range kinds {
		rest, under := strings.CutPrefix(path, k.path)
		switch {
		case !under:
		case rest == "":
			return k, "", true
		case rest[0] == '/':
			return k, strings.TrimSuffix(rest[1:], "/update"), true
		}
	}
	return kind{}, "", false
}

// object is what a kind's list holds, as it is on the wire.
type object map[string]any

func (o object) text(member string) string {
	s, _ := o[member].(string)
	return s
}

// public returns the object without members that no answer shows.
func (o object) public(k kind) object {
	o = maps.Clone(o)
	for _, member := range k.hidden {
		delete(o, member)
	}
	return o
}

// management answers requests about management objects.
func (d *deployment) management(k kind, id string, x *exchange) *reply {
	var body object
	if len(x.body) > 0 {
		if err := json.Unmarshal(x.body, &body); err != nil {
			return d.refusal(x, http.StatusBadRequest, "the body is no JSON object")
		}
	}
	switch method := x.request.Method; {
	case id == "" && method == http.MethodGet:
		return d.listReply(k)
	case id == "" && method == http.MethodPost:
		return d.create(k, x, body)
	case id == "":
		return d.refusal(x, http.StatusMethodNotAllowed, "this is a list: GET and POST")
	}
	i := slices.IndexFunc(d.objects[k.path], func(o object) bool { return o.text("id") == id })
	if i < 0 {
		return d.refusal(x, http.StatusNotFound, fmt.Sprintf("there is no %s %s", k.name, id))
	}
	o := d.objects[k.path][i]
	switch x.request.Method {
	case http.MethodGet:
	case http.MethodPatch, http.MethodPut, http.MethodPost:
		if now, _ := body["size"].(float64); body["size"] != nil && k.name == volumes && now <= sizeOf(o) {
			x.shrinks = now < sizeOf(o)
			return d.refusal(x, http.StatusBadRequest, fmt.Sprintf("the size must exceed the current size, %v GB", sizeOf(o)))
		}
		maps.Copy(o, body)
	case http.MethodDelete:
		if k.name == volumes {
			d.deleted[o.text("name")] = sizeOf(o)
		}
		d.objects[k.path] = slices.Delete(d.objects[k.path], i, i+1)
		return &reply{status: http.StatusNoContent}
	default:
		return d.refusal(x, http.StatusMethodNotAllowed, "this is an object: GET, PATCH and DELETE")
	}
	return &reply{status: http.StatusOK, body: o.public(k)}
}

func (d *deployment) listReply(k kind) *reply {
	list := []object{}
	for _, o := range d.objects[k.path] {
		list = append(list, o.public(k))
	}
	if k.member == "" {
		return &reply{status: http.StatusOK, body: list}
	}
	return &reply{status: http.StatusOK, body: object{k.member: list}}
}

func (d *deployment) create(k kind, x *exchange, body object) *reply {
	name := body.text("name")
	if name == "" {
		return d.refusal(x, http.StatusBadRequest, "$: missing property 'name'")
	}
	if k.unique && slices.ContainsFunc(d.objects[k.path], func(o object) bool { return o.text("name") == name }) {
		return d.nameTakenReply(k, x, name)
	}
	o := object{}
	maps.Copy(o, k.fills)
	maps.Copy(o, body)
	d.made++
	x.shrinks = k.name == volumes && sizeOf(o) < d.deleted[name] // replaced by a smaller one, its data lost
	o["id"] = fmt.Sprintf("made%d", d.made)
	d.objects[k.path] = append(d.objects[k.path], o)
	return &reply{status: http.StatusOK, body: o.public(k)}
}

// nameTakenReply refuses a name that another object has.
func (d *deployment) nameTakenReply(k kind, x *exchange, name string) *reply {
	return d.refusal(x, http.StatusBadRequest, fmt.Sprintf("the name %q is taken by another %s: names of %ss are unique", name, k.name, k.name))
}

// sizeOf of a network volume in GB.
func sizeOf(o object) float64 {
	switch n := o["size"].(type) {
	case float64:
		return n
	case int:
		return float64(n)
	}
	return 0
}

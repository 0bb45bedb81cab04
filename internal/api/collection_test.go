package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// kind has the operations of a kind on the object "a". It hides the type parameter of api.Collection.
type kind struct {
	name     string
	path     map[api.Version]string
	query    string // of every read on v1
	member   string // of a v2 list
	list     func(context.Context, *api.Client) (int, error)
	get, del func(context.Context, *api.Client) error
	update   func(context.Context, *api.Client) error // sends a PATCH; nil if the kind has no update
}

// newKind returns the operations of a kind. Its update turns the object have into want.
func newKind[T any](k kind, collection func(*api.Client) *api.Collection[T], have, want T) kind {
	k.list = func(ctx context.Context, c *api.Client) (int, error) {
		l, err := collection(c).List(ctx)
		return len(l), err
	}
	k.get = func(ctx context.Context, c *api.Client) error { return must.Err(collection(c).Get(ctx, "a")) }
	k.del = func(ctx context.Context, c *api.Client) error { return collection(c).Delete(ctx, "a") }
	if k.name != "registry auth" {
		k.update = func(ctx context.Context, c *api.Client) error { return must.Err(collection(c).Update(ctx, have, want)) }
	}
	return k
}

func onBoth(v1, v2 string) map[api.Version]string {
	return map[api.Version]string{api.V1: v1, api.V2: v2}
}

var kinds = []kind{
	newKind(kind{name: "template", path: onBoth("/v1/templates", "/v2/templates"), query: "includeEndpointBoundTemplates=true", member: "templates"},
		func(c *api.Client) *api.Collection[api.Template] { return c.Templates }, api.Template{ID: "a", Name: "n"}, api.Template{Name: "m"}),
	newKind(kind{name: "network volume", path: onBoth("/v1/networkvolumes", "/v2/network-volumes"), member: "networkVolumes"},
		func(c *api.Client) *api.Collection[api.NetworkVolume] { return c.NetworkVolumes }, api.NetworkVolume{ID: "a", Name: "n"}, api.NetworkVolume{Name: "m"}),
	newKind(kind{name: "registry auth", path: onBoth("/v1/containerregistryauth", "/v2/registries"), member: "registries"},
		func(c *api.Client) *api.Collection[api.RegistryAuth] { return c.RegistryAuths }, api.RegistryAuth{}, api.RegistryAuth{}),
	newKind(kind{name: "endpoint", path: onBoth("/v1/endpoints", "/v2/serverless"), member: "endpoints"},
		func(c *api.Client) *api.Collection[api.Endpoint] { return c.Endpoints }, api.Endpoint{ID: "a", Name: "n"}, api.Endpoint{Name: "m"}),
	newKind(kind{name: "pod", path: onBoth("/v1/pods", "/v2/pods"), query: "includeMachine=true&includeNetworkVolume=true", member: "pods"},
		func(c *api.Client) *api.Collection[api.Pod] { return c.Pods.Collection }, api.Pod{ID: "a", Name: "n"}, api.Pod{Name: "m"}),
	newKind(kind{name: "cluster", path: map[api.Version]string{api.V2: "/v2/clusters"}, member: "clusters"},
		func(c *api.Client) *api.Collection[api.Cluster] { return c.Clusters.Collection }, api.Cluster{ID: "a", Name: "n"}, api.Cluster{Name: "m"}),
}

var versions = []api.Version{api.V1, api.V2}

func TestPathsAndQueries(t *testing.T) {
	for _, kind := range kinds {
		for version := range kind.path {
			list := `[{"id":"a"},{"id":"b"}]`
			if version == api.V2 {
				list = `{"` + kind.member + `":` + list + `,"next":null}`
			}
			c, d := deploy(t, version, answer(200, list), answer(200, `{"id":"a","unheardOf":{"x":[1]}}`), answer(204, ``))
			n, err := kind.list(t.Context(), c)
			must.Hold(t, n == 2 && err == nil, version, kind.name, n, "listed", err)
			must.Succeed(t, kind.get(t.Context(), c), version, kind.name)
			must.Succeed(t, kind.del(t.Context(), c), version, kind.name)
			var got []string
			for _, r := range d.requests() {
				got = append(got, strings.TrimSuffix(r.method+" "+r.path+"?"+r.query, "?"))
			}
			read := ""
			if version == api.V1 && kind.query != "" {
				read = "?" + kind.query
			}
			expectEqual(t, got, []string{
				"GET " + kind.path[version] + read, "GET " + kind.path[version] + "/a" + read, "DELETE " + kind.path[version] + "/a",
			})
		}
	}
}

func TestInvalidLists(t *testing.T) {
	for _, kind := range kinds {
		for _, c := range []struct {
			version    api.Version
			body, says string // MEMBER stands for the member of the kind
		}{
			{api.V1, `[]`, ""},
			{api.V1, `null`, "$ is null, not an array"},
			{api.V1, `{}`, "$ is an object, not an array"},
			{api.V1, `{"message":"hello"}`, "$ is an object, not an array"},
			{api.V1, `[7]`, "$[0] is a number, not an object"},
			{api.V1, `[{"id":"a"},{"name":"x"}]`, "$[1] has no id"},
			{api.V1, `[{"id":"a","name":{}}]`, "$[0].name is an object, not a string"},
			{api.V2, `{"MEMBER":[]}`, ""},
			{api.V2, `null`, `it has no member "MEMBER"`},
			{api.V2, `{"MEMBER":null}`, "$.MEMBER is null, not an array"},
			{api.V2, `{"MEMBER":[null]}`, "$.MEMBER[0] has no id"},
			{api.V2, `{"MEMBER":[{"id":"a"},{"id":7}]}`, "$.MEMBER[1].id is a number, not a string"},
			{api.V2, `{"MEMBER":[{"id":"a"},{"id":"b","name":[]}]}`, "$.MEMBER[1].name is an array, not a string"},
			{api.V2, `{}`, `it has no member "MEMBER"`}, // must not count as an empty list
			{api.V2, `[]`, "$ is an array, not an object"},
			{api.V2, `{"MEMBER":{}}`, "$.MEMBER is an object, not an array"},
			{api.V2, `{"MEMBER":"none"}`, "$.MEMBER is a string, not an array"},
		} {
			if kind.path[c.version] == "" {
				continue
			}
			client, d := deploy(t, c.version, answer(200, strings.ReplaceAll(c.body, "MEMBER", kind.member), "X-Request-Id", "r-1"))
			n, err := kind.list(t.Context(), client)
			must.Hold(t, n == 0 && (err == nil) == (c.says == ""), c.version, kind.name, c.body, n, "listed", err)
			if err != nil {
				must.Contain(t, err.Error(), "GET "+client.BaseURL()+kind.path[c.version]+": 200 OK: ", strings.ReplaceAll(c.says, "MEMBER", kind.member), "(request id r-1)")
			}
			must.Equal(t, len(d.requests()), 1, c.version, kind.name, c.body, "requests")
		}
	}
}

func TestResponseAboutAnotherObject(t *testing.T) {
	const body = `{"id":"b","name":"m","size":10,"status":"COMPLETED"}`
	calls := map[string]func(context.Context, *api.Client) error{
		"start pod":   func(ctx context.Context, c *api.Client) error { return c.Pods.Act(ctx, "a", api.StartPod) },
		"stop pod":    func(ctx context.Context, c *api.Client) error { return c.Pods.Act(ctx, "a", api.StopPod) },
		"restart pod": func(ctx context.Context, c *api.Client) error { return c.Pods.Act(ctx, "a", api.RestartPod) },
		"job":         func(ctx context.Context, c *api.Client) error { return must.Err(c.Jobs.Status(ctx, "e", "a")) },
		"cancel job":  func(ctx context.Context, c *api.Client) error { return must.Err(c.Jobs.Cancel(ctx, "e", "a")) },
		"retry job":   func(ctx context.Context, c *api.Client) error { return must.Err(c.Jobs.Retry(ctx, "e", "a")) },
		"GPU type":    func(ctx context.Context, c *api.Client) error { return must.Err(c.GPUTypes.Get(ctx, "a", nil)) },
		"CPU type":    func(ctx context.Context, c *api.Client) error { return must.Err(c.CPUTypes.Get(ctx, "a", nil)) },
		"data center": func(ctx context.Context, c *api.Client) error { return must.Err(c.DataCenters.Get(ctx, "a", nil)) },
	}
	for _, kind := range kinds {
		calls["get "+kind.name], calls["update "+kind.name], calls["delete "+kind.name] = kind.get, kind.update, kind.del
	}
	for _, version := range versions {
		for name, call := range calls {
			if call == nil || version == api.V1 && strings.Contains(name, "cluster") {
				continue
			}
			for _, shared := range []bool{false, true} {
				d := &deployment{answers: []http.HandlerFunc{answer(200, body, "X-Request-Id", "r-1")}, emptyLists: true}
				server := httptest.NewServer(d)
				err := call(t.Context(), client(t, api.Settings{BaseURL: server.URL, Version: version, SharedReads: shared}))
				server.Close()
				must.Hold(t, err != nil && !api.IsNotFound(err) && strings.Contains(err.Error(), `"b", not a`) && strings.Contains(err.Error(), "r-1"),
					"expected an error about another object from", name, "on", version, "got", err)
			}
		}
	}
}

func TestDelete(t *testing.T) {
	// One form serves both versions.
	gone := answer(404, `{"title":"Not Found","status":404,"detail":"none","message":"none"}`)
	there, failing := answer(200, `{"id":"a"}`), answer(403, ``)
	foreign, page := answer(404, `default backend - 404`), answer(200, `<html>`)
	for _, c := range []struct {
		name    string
		version api.Version
		del     http.HandlerFunc
		read    http.HandlerFunc
		status  int // of the error, 0 for success
		sent    int
	}{
		{"deleted", api.V1, answer(204, ``), nil, 0, 1},
		{"deleted", api.V2, answer(204, ``), nil, 0, 1},
		{"deleted with a body", api.V2, answer(200, `ok`), gone, 0, 2},
		{"deleted without a body", api.V1, answer(200, ``), gone, 0, 2},
		{"accepted, and deleted", api.V1, answer(202, ``), gone, 0, 2},
		{"not deleted", api.V1, answer(200, ``), there, 200, 5},
		{"not deleted", api.V2, answer(200, `{"id":"a"}`), there, 200, 5},
		{"accepted, and not deleted", api.V1, answer(202, `{}`), there, 202, 8},
		{"accepted, and not deleted", api.V2, answer(202, ``), there, 202, 8},
		{"accepted, and reads fail", api.V2, answer(202, ``), failing, 403, 2},
		{"accepted, and a proxy's 404", api.V2, answer(202, ``), foreign, 404, 8},
		{"accepted, and a page", api.V2, answer(202, ``), page, 200, 2},
		{"unknown", api.V1, gone, nil, 0, 1},
		{"unknown", api.V2, gone, nil, 0, 1},
		{"404 from a proxy", api.V1, foreign, nil, 404, 1},
		{"404 from a proxy", api.V2, foreign, nil, 404, 1},
		{"in the form of v1", api.V2, answer(404, `{"message":"none"}`), nil, 404, 1},
		{"in the form of v2, of another status", api.V2, answer(404, `{"title":"none","status":400}`), nil, 404, 1},
		{"in the form of v1, with the member error", api.V1, answer(404, `{"error":"none","status":404}`), nil, 0, 1},
		{"unknown by 400, and a proxy's 404", api.V1, answer(400, ``), foreign, 400, 2},
		{"unknown by 400", api.V1, answer(400, ``), gone, 0, 2},
		{"in use", api.V1, answer(400, `{"message":"in use"}`), there, 400, 2},
		{"unknown by 400, and the read fails", api.V1, answer(400, ``), failing, 400, 2},
		{"in use", api.V2, answer(400, ``), gone, 400, 1},
		{"in conflict", api.V2, answer(409, ``), nil, 409, 1},
		{"forbidden", api.V1, answer(403, ``), gone, 403, 1},
		{"forbidden", api.V2, answer(403, ``), nil, 403, 1},
	} {
		for _, kind := range kinds {
			answers := []http.HandlerFunc{c.del}
			if c.read != nil {
				answers = append(answers, c.read)
			}
			if kind.path[c.version] == "" {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				client, d := deployPiped(t, c.version, answers...)
				err := kind.del(t.Context(), client)
				must.Hold(t, status(err) == c.status && len(d.requests()) == c.sent,
					c.name, c.version, kind.name, "ends with", err, "after", len(d.requests()), "requests, expected", c.status, "after", c.sent)
			})
		}
	}
}

func TestUnchangedUpdateOnlyReads(t *testing.T) {
	for _, version := range versions {
		c, d := deploy(t, version, answer(200, `{"id":"a","name":"n","size":10}`))
		volume := api.NetworkVolume{ID: "a", Name: "n", Size: 10}
		got := must.Do(c.NetworkVolumes.Update(t.Context(), volume, api.NetworkVolume{Name: "n", Size: 10}))(t)
		must.Equal(t, got.ID, "a", "the id of the volume")
		template := api.Template{ID: "a", Name: "n", Image: "i", Env: map[string]string{}, Ports: []string{}}
		must.Do(c.Templates.Update(t.Context(), template, api.Template{Name: "n", Image: "i"}))(t)
		auth := api.RegistryAuth{ID: "a", Name: "n", Username: "u"}
		must.Do(c.RegistryAuths.Update(t.Context(), auth, api.RegistryAuth{Name: "n", Username: "u"}))(t)
		endpoint := api.Endpoint{ID: "a", Name: "n", GPU: &api.GPU{Pools: []string{"A"}}}
		must.Do(c.Endpoints.Update(t.Context(), endpoint, api.Endpoint{Name: "n", GPU: &api.GPU{Pools: []string{"A"}}}))(t)
		for _, r := range d.requests() {
			must.Hold(t, r.method == "GET" && strings.HasSuffix(r.path, "/a"), version, "sent", r.method, r.path, r.body)
		}
	}
}

func TestRegistryAuth(t *testing.T) {
	for version, path := range map[api.Version]string{api.V1: "/v1/containerregistryauth", api.V2: "/v2/registries"} {
		c, d := deploy(t, version, answer(201, `{"id":"a","name":"n"}`))
		d.emptyLists = true
		got := must.Do(c.RegistryAuths.Create(t.Context(), api.RegistryAuth{Name: "n", Username: "u", Password: "p"}))(t)
		expectEqual(t, got, api.RegistryAuth{ID: "a", Name: "n"})
		expectEqual(t, d.last(t).path, path)
		expectSameJSON(t, d.last(t).body, `{"name":"n","username":"u","password":"p"}`)
		must.Hold(t, must.Err(c.RegistryAuths.Update(t.Context(), api.RegistryAuth{ID: "a", Name: "n"}, api.RegistryAuth{Name: "m"})) != nil, "an auth is changed in place")
		expectEqual(t, len(d.requests()), 1)
	}
}

func TestNetworkVolume(t *testing.T) {
	for _, c := range []struct {
		version      api.Version
		volume       api.NetworkVolume
		create, read string
	}{
		{api.V1, api.NetworkVolume{ID: "a", Name: "n", Size: 10, DataCenter: "EU-RO-1"},
			`{"name":"n","size":10,"dataCenterId":"EU-RO-1"}`, `{"id":"a","name":"n","size":10,"dataCenterId":"EU-RO-1"}`},
		{api.V2, api.NetworkVolume{ID: "a", Name: "n", Size: 10, DataCenter: "EU-RO-1", Type: new("STANDARD")},
			`{"name":"n","size":10,"dataCenter":"EU-RO-1","type":"STANDARD"}`, `{"id":"a","name":"n","size":10,"dataCenter":"EU-RO-1","type":"STANDARD"}`},
	} {
		client, d := deploy(t, c.version, answer(200, c.read))
		d.emptyLists = true
		expectEqual(t, must.Do(client.NetworkVolumes.Create(t.Context(), c.volume))(t), c.volume)
		expectSameJSON(t, d.last(t).body, c.create)

		for want, body := range map[api.NetworkVolume]string{
			{Name: "n", Size: 20}: `{"size":20}`,
			{Name: "m", Size: 10}: `{"name":"m"}`,
			{Name: "m", Size: 20}: `{"name":"m","size":20}`,
			// Not changed in place; the plan replaces.
			{Name: "m", Size: 10, DataCenter: "x", Type: new("y")}: `{"name":"m"}`,
		} {
			must.Do(client.NetworkVolumes.Update(t.Context(), c.volume, want))(t)
			expectEqual(t, d.last(t).method, "PATCH")
			expectSameJSON(t, d.last(t).body, body)
		}
	}
	// v1 accepts a volume of size 0.
	client, d := deploy(t, api.V1, answer(200, `{"id":"a"}`))
	d.emptyLists = true
	client.NetworkVolumes.Create(t.Context(), api.NetworkVolume{Name: "n", DataCenter: "x"})
	expectSameJSON(t, d.last(t).body, `{"name":"n","size":0,"dataCenterId":"x"}`)
}

// status returns the HTTP status of an API error, -1 for any other error, or 0 for nil.
func status(err error) int {
	if failure, ok := errors.AsType[*api.Error](err); ok {
		return failure.Status
	}
	if err != nil {
		return -1
	}
	return 0
}

func decodeAnswer[T any](t *testing.T, version api.Version, collection func(*api.Client) *api.Collection[T], wire string) T {
	t.Helper()
	c, _ := deploy(t, version, answer(200, wire))
	return must.Do(collection(c).Get(t.Context(), "a"))(t)
}

func createBody[T any](t *testing.T, version api.Version, collection func(*api.Client) *api.Collection[T], want T) (string, error) {
	t.Helper()
	c, d := deploy(t, version, answer(201, `{"id":"a"}`))
	d.emptyLists = true
	if _, err := collection(c).Create(t.Context(), want); err != nil {
		return "", err
	}
	return d.last(t).body, nil
}

// expectUpdate expects the body that an Update sends, or null if it sends nothing.
func expectUpdate[T any](t *testing.T, version api.Version, collection func(*api.Client) *api.Collection[T], have, want T, body string) {
	t.Helper()
	expectSameJSON(t, must.Do(updateBody(t, version, collection, have, want))(t), body)
}

// expectUpdates expects the bodies that an Update of each version sends, or null if it sends nothing.
func expectUpdates[T any](t *testing.T, collection func(*api.Client) *api.Collection[T], have, want T, v1, v2 string) {
	t.Helper()
	expectUpdate(t, api.V1, collection, have, want, v1)
	expectUpdate(t, api.V2, collection, have, want, v2)
}

// updateBody returns the body that an Update sends, or null if it sends nothing.
func updateBody[T any](t *testing.T, version api.Version, collection func(*api.Client) *api.Collection[T], have, want T) (string, error) {
	t.Helper()
	c, d := deploy(t, version, answer(200, `{"id":"a"}`))
	if _, err := collection(c).Update(t.Context(), have, want); err != nil {
		return "", err
	}
	last := d.last(t)
	if last.method == "GET" {
		return "null", nil
	}
	must.Hold(t, json.Valid([]byte(last.body)) && last.method == "PATCH", "sent", last.method, last.body)
	return last.body, nil
}

func TestTakenNameInAnotherCase(t *testing.T) {
	runInBubble(t, "secret", func(t *testing.T) {
		s := &fakeAPI{member: "secrets", faults: []fault{func(w http.ResponseWriter, r *http.Request, _ func() string) { answer(409, `{}`)(w, r) }}}
		run := s.newClient(t)
		s.add(map[string]any{"name": "token"})
		want := api.Secret{Name: "TOKEN", Value: "v"}
		must.Equal(t, len(run.Secrets.ExistingMatches(t.Context(), want)), 1, "matches")
		_, err := run.Secrets.Create(t.Context(), want)
		must.ErrorContains(t, err, "another secret has the name", "id1")
	})
}

package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestClusters(t *testing.T) {
	c, d := deploy(t, api.V2, answer(200, `{"id":"a","name":"c"}`))
	d.emptyLists = true
	want := api.Cluster{Name: "c", Type: "RAY", Compute: api.ClusterCompute{GPUTypeID: "g", GPUCountPerPod: 8, PodCount: 2}, Image: "i", Env: map[string]string{"A": "b"}, StartSSH: new(true)}
	must.Do(c.Clusters.Create(t.Context(), want))(t)
	sameJSON(t, d.last(t).body, `{"name":"c","type":"RAY","compute":{"gpuTypeId":"g","gpuCountPerPod":8,"podCount":2},"image":"i","env":{"A":"b"},"startSsh":true}`)
	must.Do(c.Clusters.Update(t.Context(), api.Cluster{ID: "a", Name: "c"}, api.Cluster{Name: "d", Type: "SLURM", Image: "other"}))(t)
	sameJSON(t, d.last(t).body, `{"name":"d"}`)

	c, d = deploy(t, api.V2, answer(200, `{"pods":[{"id":"p","image":"i","cluster":{"id":"a","rank":0}}]}`))
	members, err := c.Clusters.Pods(t.Context(), "a")
	if err != nil || len(members) != 1 || *members[0].Container.Image != "i" || *members[0].Cluster.Rank != 0 || d.last(t).path != "/v2/clusters/a/pods" {
		t.Errorf("got %+v, %v", members, err)
	}
}

// A kind that v1 lacks is rejected without a request.
func TestKindsOfV2Alone(t *testing.T) {
	c, d := deploy(t, api.V1, answer(200, `{}`))
	_, cluster := c.Clusters.Create(t.Context(), api.Cluster{Name: "c"})
	_, pods := c.Clusters.Pods(t.Context(), "c")
	_, delegations := c.Delegations.List(t.Context())
	for _, err := range []error{cluster, pods, delegations, c.Clusters.Delete(t.Context(), "c")} {
		must.Hold(t, err != nil, "no error")
	}
	must.Equal(t, d.requests(), nil, "sent")
}

// A delegation is read from the list. Its ARN is composed of its parts.
func TestDelegations(t *testing.T) {
	element := func(id, region, tag, uri string) string {
		return fmt.Sprintf(`{"id":%q,"name":null,"delegatorUserId":"u","awsUser":"123456789012","repository":"team/app","tag":%q,"awsRegion":%q,"dockerRegistryUri":%q,"createdAt":"x"}`, id, tag, region, uri)
	}
	list := `{"delegations":[` + element("a", "us-east-2", "latest", "210987654321.dkr.ecr.us-east-2.amazonaws.com") + `,` + element("b", "cn-north-1", "v1", "") + `,` + element("c", "us-gov-west-1", "latest", "") + `]}`
	c, d := deploy(t, api.V2, answer(200, list))
	for id, want := range map[string]string{
		"a": "arn:aws:ecr:us-east-2:210987654321:repository/team/app",
		"b": "arn:aws-cn:ecr:cn-north-1:123456789012:repository/team/app:v1",
		"c": "arn:aws-us-gov:ecr:us-gov-west-1:123456789012:repository/team/app",
	} {
		got, err := c.Delegations.Get(t.Context(), id)
		must.Hold(t, err == nil && got.Resource == want && got.Name == nil, got, err)
	}
	if _, err := c.Delegations.Get(t.Context(), "d"); !api.IsNotFound(err) {
		t.Errorf("another: %v", err)
	}
	paths := d.requests()
	must.Hold(t, !slices.ContainsFunc(paths, func(r request) bool { return r.path != "/v2/registries/delegations" }), "asked", paths)
	c, d = deploy(t, api.V2, answer(201, element("n", "us-east-2", "latest", "")))
	d.emptyLists = true
	must.Do(c.Delegations.Create(t.Context(), api.Delegation{ID: "x", Name: new("n"), Resource: "arn:x", AWSRegion: "y"}))(t)
	sameJSON(t, d.last(t).body, `{"name":"n","resource":"arn:x"}`)
}

// The list may show a new delegation with a delay.
func TestDelegationThatDoesNotShowYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shop{member: "delegations", hidden: 3}
		mux := http.NewServeMux()
		mux.HandleFunc("/v2/registries/delegations", func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = "/v2/delegations"
			s.ServeHTTP(w, r)
		})
		c := pipe(t, mux, api.Settings{})
		created := must.Do(c.Delegations.Create(t.Context(), api.Delegation{Resource: "arn:aws:ecr:us-east-2:123456789012:repository/app"}))(t)
		got := must.Do(c.Delegations.Get(t.Context(), created.ID))(t)
		must.Hold(t, got.ID == created.ID, got)
	})
}

func TestSSHKeys(t *testing.T) {
	for _, version := range versions { // both versions use API v2
		c, d := deploy(t, version, answer(200, `{"keys":["ssh-rsa a"]}`))
		must.Equal(t, must.Do(c.SSHKeys.Get(t.Context()))(t), []string{"ssh-rsa a"})
		if _, err := c.SSHKeys.Set(t.Context(), nil); err != nil {
			t.Error(err)
		}
		last := d.last(t)
		must.Hold(t, last.method == http.MethodPut && last.path == "/v2/account/ssh-keys", "sent", last.method, last.path)
		sameJSON(t, last.body, `{"keys":[]}`)
	}
	c, _ := deploy(t, api.V2, answer(200, `{}`))
	if got, err := c.SSHKeys.Get(t.Context()); err == nil {
		t.Errorf("a document without keys: %v", got)
	}
}

// An edit sends its changes, and nothing without a change.
func TestEditOfSSHKeys(t *testing.T) {
	c, d := deploy(t, api.V2, answer(200, `{"keys":["a b"]}`))
	for _, change := range []func([]string) []string{
		func(keys []string) []string { return keys },
		func(keys []string) []string { return append(keys, "c d") },
	} {
		must.Do(c.SSHKeys.Edit(t.Context(), change))(t)
	}
	var sent []string
	for _, r := range d.requests() {
		sent = append(sent, r.method+" "+r.body)
	}
	same(t, sent, []string{"GET ", "GET ", `PUT {"keys":["a b","c d"]}`})
}

package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

const gpus = `{"gpus":[
	{"id":"B2","name":"b two","pool":"B","memory":24},
	{"id":"A1","name":"a one","pool":"A","memory":16,"price":{"secure":0,"community":0},"maxCount":{"secure":8}},
	{"id":"A2","pool":"A","memory":16},
	{"id":"A3","pool":"A","memory":20},
	{"id":"B1","pool":"B","memory":24},
	{"id":"N","pool":null,"memory":8},
	{"id":"M","memory":8}
]}`

func TestGPUTypes(t *testing.T) {
	for _, version := range versions { // v1 has no catalog of its own
		c, d := deploy(t, version, answer(200, gpus))
		for range 2 {
			got := must.Do(c.GPUTypes.Find(t.Context(), nil))(t)
			expectEqual(t, got[:2], []api.GPUType{{ID: "B2", Name: "b two", Pool: "B", Memory: 24}, {ID: "A1", Name: "a one", Pool: "A", Memory: 16, Price: api.GPUPrice{Secure: "0", Community: "0"}, MaxCount: api.CloudCount{Secure: 8}}})
			expectEqual(t, got[5], api.GPUType{ID: "N", Memory: 8})
			got[0].Pool = "changed by the caller"
		}
		expectEqual(t, len(d.requests()), 1)
		expectEqual(t, d.last(t).path+d.last(t).query, "/v2/catalog/gpus")
	}
}

func TestSelectGPUs(t *testing.T) {
	c, d := deploy(t, api.V2, answer(200, gpus))
	for _, test := range []struct {
		types, pools, excluded []string
		noPool, unknown        []string
	}{
		{},
		{types: []string{"B1", "B2"}, pools: []string{"B"}},
		{types: []string{"A2"}, pools: []string{"A"}, excluded: []string{"A1", "A3"}},
		{types: []string{"B1", "A3", "A1", "B1"}, pools: []string{"A", "B"}, excluded: []string{"A2", "B2"}},
		{types: []string{"N", "A1", "Z", "M", "Y", "Z"}, noPool: []string{"M", "N"}, unknown: []string{"Y", "Z"}},
	} {
		pools, excluded, err := c.SelectGPUs(t.Context(), test.types)
		if test.noPool == nil {
			must.Hold(t, err == nil && slices.Equal(pools, test.pools) && slices.Equal(excluded, test.excluded), test.types, "give", pools, "without", excluded, err)
			continue
		}
		failure, ok := errors.AsType[*api.SelectionError](err)
		must.Require(t, ok && pools == nil && excluded == nil, test.types, "give", pools, "without", excluded, err)
		expectEqual(t, failure, &api.SelectionError{NoPool: test.noPool, Unknown: test.unknown})
		expectEqual(t, err.Error(), "no selection of GPU pools reaches these GPU types (in no serverless pool: M, N; not in the deployment's catalog: Y, Z)")
	}
	expectEqual(t, len(d.requests()), 1)

	c, d = deploy(t, api.V1, answer(500, ``))
	pools, excluded, err := c.SelectGPUs(t.Context(), []string{"A1", "Z"})
	must.Hold(t, pools == nil && excluded == nil && err == nil, "on v1 they give", pools, "without", excluded, err)
	expectEqual(t, len(d.requests()), 0)
}

func TestCatalogFailureIsNotCached(t *testing.T) {
	c, d := deploy(t, api.V2, answer(403, ``), answer(200, `{}`), answer(200, gpus))
	for range 2 {
		_, _, err := c.SelectGPUs(t.Context(), []string{"A1"})
		must.Hold(t, err != nil, "a failed request returns a catalog")
	}
	pools, _, err := c.SelectGPUs(t.Context(), []string{"A1"})
	must.Hold(t, err == nil && len(pools) == 1, "got", pools, err)
	expectEqual(t, len(d.requests()), 3)
}

// Concurrent readers share one request for the catalog, even if the first reader gives up.
func TestCatalogIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(5 * time.Second)
			answer(200, gpus)(w, r)
		}
		c, d := deployPiped(t, api.V2, slow)
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			_, err := c.GPUTypes.Find(impatient, nil)
			must.Hold(t, errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "catalog"), "the impatient got", err)
		})
		synctest.Wait()
		for range 9 {
			all.Go(func() {
				got, err := c.GPUTypes.Find(t.Context(), nil)
				must.Hold(t, err == nil && len(got) == 7, "got", got, err)
			})
		}
		all.Wait()
		expectEqual(t, len(d.requests()), 1)
	})
}

// Callers that request the catalog while the first answer arrives don't send another request.
func TestCatalogLookupDuringAnAnswer(t *testing.T) {
	for range 200 {
		c, d := deploy(t, api.V2, answer(200, gpus))
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				got, err := c.GPUTypes.Find(t.Context(), nil)
				must.Hold(t, err == nil && len(got) == 7, "got", got, err)
			})
			runtime.Gosched()
		}
		all.Wait()
		expectEqual(t, len(d.requests()), 1)
	}
}

func TestClusters(t *testing.T) {
	c, d := deploy(t, api.V2, answer(200, `{"id":"a","name":"c"}`))
	d.emptyLists = true
	want := api.Cluster{Name: "c", Type: "RAY", Compute: api.ClusterCompute{GPUTypeID: "g", GPUCountPerPod: 8, PodCount: 2}, Image: "i", Env: map[string]string{"A": "b"}, StartSSH: new(true)}
	must.Do(c.Clusters.Create(t.Context(), want))(t)
	expectSameJSON(t, d.last(t).body, `{"name":"c","type":"RAY","compute":{"gpuTypeId":"g","gpuCountPerPod":8,"podCount":2},"image":"i","env":{"A":"b"},"startSsh":true}`)
	must.Do(c.Clusters.Update(t.Context(), api.Cluster{ID: "a", Name: "c"}, api.Cluster{Name: "d", Type: "SLURM", Image: "other"}))(t)
	expectSameJSON(t, d.last(t).body, `{"name":"d"}`)

	c, d = deploy(t, api.V2, answer(200, `{"pods":[{"id":"p","image":"i","cluster":{"id":"a","rank":0}}]}`))
	members, err := c.Clusters.Pods(t.Context(), "a")
	must.Hold(t, err == nil && len(members) == 1 && *members[0].Container.Image == "i" && *members[0].Cluster.Rank == 0 && d.last(t).path == "/v2/clusters/a/pods",
		"got", members, err)
}

// A kind that v1 lacks is rejected without a request.
func TestKindsOnlyOnV2(t *testing.T) {
	c, d := deploy(t, api.V1, answer(200, `{}`))
	_, clusterErr := c.Clusters.Create(t.Context(), api.Cluster{Name: "c"})
	_, podsErr := c.Clusters.Pods(t.Context(), "c")
	_, delegationsErr := c.Delegations.List(t.Context())
	for _, err := range []error{clusterErr, podsErr, delegationsErr, c.Clusters.Delete(t.Context(), "c")} {
		must.Hold(t, err != nil, "v1 accepts an operation of a kind that it lacks")
	}
	must.Equal(t, d.requests(), nil, "the requests")
}

// A delegation is read from the list. Its ARN is composed of its parts.
func TestDelegations(t *testing.T) {
	element := func(id, region, tag, uri string) string {
		return fmt.Sprintf(`{"id":%q,"name":null,"delegatorUserId":"u","awsUser":"123456789012","repository":"team/app","tag":%q,"awsRegion":%q,"dockerRegistryUri":%q,"createdAt":"x"}`, id, tag, region, uri)
	}
	list := `{"delegations":[` + element("a", "us-east-2", "latest", "210987654321.dkr.ecr.us-east-2.amazonaws.com") + `,` + element("b", "cn-north-1", "v1", "") + `,` + element("c", "us-gov-west-1", "latest", "") + `,` + element("f", "us-isof-south-1", "latest", "") + `]}`
	c, d := deploy(t, api.V2, answer(200, list))
	for id, want := range map[string]string{
		"a": "arn:aws:ecr:us-east-2:210987654321:repository/team/app",
		"b": "arn:aws-cn:ecr:cn-north-1:123456789012:repository/team/app:v1",
		"c": "arn:aws-us-gov:ecr:us-gov-west-1:123456789012:repository/team/app",
		"f": "arn:aws-iso-f:ecr:us-isof-south-1:123456789012:repository/team/app",
	} {
		got, err := c.Delegations.Get(t.Context(), id)
		must.Hold(t, err == nil && got.Resource == want && got.Name == nil, "expected", want, "without a name, got", got, err)
	}
	_, err := c.Delegations.Get(t.Context(), "d")
	must.Hold(t, api.IsNotFound(err), "an unlisted delegation gives", err)
	paths := d.requests()
	must.Hold(t, !slices.ContainsFunc(paths, func(r request) bool { return r.path != "/v2/registries/delegations" }), "asked", paths)
	c, d = deploy(t, api.V2, answer(201, element("n", "us-east-2", "latest", "")))
	d.emptyLists = true
	must.Do(c.Delegations.Create(t.Context(), api.Delegation{ID: "x", Name: new("n"), Resource: "arn:x", AWSRegion: "y"}))(t)
	expectSameJSON(t, d.last(t).body, `{"name":"n","resource":"arn:x"}`)
}

// The list may show a new delegation with a delay.
func TestDelegationIsListedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeAPI{member: "delegations", staleLists: 3}
		mux := http.NewServeMux()
		mux.HandleFunc("/v2/registries/delegations", func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = "/v2/delegations"
			s.ServeHTTP(w, r)
		})
		c := pipe(t, mux, api.Settings{})
		created := must.Do(c.Delegations.Create(t.Context(), api.Delegation{Resource: "arn:aws:ecr:us-east-2:123456789012:repository/app"}))(t)
		got := must.Do(c.Delegations.Get(t.Context(), created.ID))(t)
		must.Equal(t, got.ID, created.ID, "the id of the delegation")
	})
}

func TestSSHKeys(t *testing.T) {
	for _, version := range versions { // both versions use API v2
		c, d := deploy(t, version, answer(200, `{"keys":["ssh-rsa a"]}`))
		must.Equal(t, must.Do(c.SSHKeys.Get(t.Context()))(t), []string{"ssh-rsa a"})
		must.Do(c.SSHKeys.Set(t.Context(), nil))(t)
		last := d.last(t)
		must.Hold(t, last.method == http.MethodPut && last.path == "/v2/account/ssh-keys", "sent", last.method, last.path)
		expectSameJSON(t, last.body, `{"keys":[]}`)
	}
	c, _ := deploy(t, api.V2, answer(200, `{}`))
	got, err := c.SSHKeys.Get(t.Context())
	must.Hold(t, err != nil, "a document without keys", got)
}

// An edit sends its changes, and nothing without a change.
func TestEditOfSSHKeys(t *testing.T) {
	c, d := deploy(t, api.V2, answer(200, `{"keys":["a b"]}`))
	must.Do(c.SSHKeys.Edit(t.Context(), nil, func(keys, _ []string) []string { return keys }))(t)
	must.Do(c.SSHKeys.Edit(t.Context(), nil, func(keys, _ []string) []string { return append(keys, "c d") }))(t)
	var sent []string
	for _, r := range d.requests() {
		sent = append(sent, r.method+" "+r.body)
	}
	expectEqual(t, sent, []string{"GET ", "GET ", `PUT {"keys":["a b","c d"]}`})
}

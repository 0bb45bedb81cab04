package api_test

import (
	"context"
	"errors"
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
			got := must.Do(c.GPUTypes(t.Context()))(t)
			same(t, got[:2], []api.GPUType{{ID: "B2", Name: "b two", Pool: "B", Memory: 24}, {ID: "A1", Name: "a one", Pool: "A", Memory: 16, Price: api.GPUPrice{Secure: "0", Community: "0"}, MaxCount: api.CloudCount{Secure: 8}}})
			same(t, got[5], api.GPUType{ID: "N", Memory: 8})
			got[0].Pool = "changed by the caller"
		}
		same(t, len(d.requests()), 1)
		same(t, d.last(t).path+d.last(t).query, "/v2/catalog/gpus")
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
			must.Hold(t, err == nil && slices.Equal(pools, test.pools) && slices.Equal(excluded, test.excluded), test.types, pools, "less", excluded, err)
			continue
		}
		wrong, ok := errors.AsType[*api.SelectionError](err)
		if !ok || pools != nil || excluded != nil {
			t.Fatalf("%v: got %v less %v, %v", test.types, pools, excluded, err)
		}
		same(t, wrong, &api.SelectionError{NoPool: test.noPool, Unknown: test.unknown})
		same(t, err.Error(), "no selection of GPU pools reaches these GPU types (in no serverless pool: M, N; not in the deployment's catalog: Y, Z)")
	}
	same(t, len(d.requests()), 1)

	c, d = deploy(t, api.V1, answer(500, ``))
	if pools, excluded, err := c.SelectGPUs(t.Context(), []string{"A1", "Z"}); pools != nil || excluded != nil || err != nil {
		t.Errorf("v1: got %v less %v, %v", pools, excluded, err)
	}
	same(t, len(d.requests()), 0)
}

func TestCatalogFailureIsNotRemembered(t *testing.T) {
	c, d := deploy(t, api.V2, answer(403, ``), answer(200, `{}`), answer(200, gpus))
	for range 2 {
		if _, _, err := c.SelectGPUs(t.Context(), []string{"A1"}); err == nil {
			t.Error("a failure passes for a catalog")
		}
	}
	if pools, _, err := c.SelectGPUs(t.Context(), []string{"A1"}); err != nil || len(pools) != 1 {
		t.Errorf("got %v, %v", pools, err)
	}
	same(t, len(d.requests()), 3)
}

// TestCatalogIsAskedOnce: by many at once, of whom the first gives up.
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
			if _, err := c.GPUTypes(impatient); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "catalog") {
				t.Errorf("the impatient got %v", err)
			}
		})
		synctest.Wait()
		for range 9 {
			all.Go(func() {
				if got, err := c.GPUTypes(t.Context()); err != nil || len(got) != 7 {
					t.Errorf("got %v, %v", got, err)
				}
			})
		}
		all.Wait()
		same(t, len(d.requests()), 1)
	})
}

// Callers that come one after the other, while the answer comes: one that looked before
// it was kept does not ask again.
func TestCatalogIsAskedOnceWhileItAnswers(t *testing.T) {
	for range 200 {
		c, d := deploy(t, api.V2, answer(200, gpus))
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				if got, err := c.GPUTypes(t.Context()); err != nil || len(got) != 7 {
					t.Errorf("got %v, %v", got, err)
				}
			})
			runtime.Gosched()
		}
		all.Wait()
		same(t, len(d.requests()), 1)
	}
}

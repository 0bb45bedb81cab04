package api_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func fakeWithVolumes(n int) *fakeAPI {
	s := &fakeAPI{}
	for range n {
		s.add(equalVolume())
	}
	return s
}

// readAll reads all objects of a fakeAPI concurrently.
func readAll(t *testing.T, c *api.Client, n int) {
	t.Helper()
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			got, err := c.NetworkVolumes.Get(t.Context(), fmt.Sprintf("id%d", i+1))
			must.Hold(t, err == nil && got.ID == fmt.Sprintf("id%d", i+1) && got.Size == 10, fmt.Sprintf("the read of id%d returned", i+1), got, err)
		})
	}
	group.Wait()
}

func TestReadsShareAList(t *testing.T) {
	for _, n := range []int{1, 10, 1000} {
		synctest.Test(t, func(t *testing.T) {
			s := fakeWithVolumes(n)
			readAll(t, s.newClient(t), n)
			must.Hold(t, s.lists == 1 && s.gets == 0, n, "objects took", s.lists, "lists and", s.gets, "reads")
		})
	}
	synctest.Test(t, func(t *testing.T) { // without SharedReads
		s := fakeWithVolumes(3)
		readAll(t, pipe(t, s, api.Settings{}), 3)
		must.Hold(t, s.lists == 0 && s.gets == 3, "3 objects without SharedReads took", s.lists, "lists and", s.gets, "reads")
	})
}

func hugeList(w http.ResponseWriter, r *http.Request) {
	answer(200, strings.Repeat(" ", 64<<20+1))(w, r)
}

// If a list is rejected, invalid, too large, or lacks an object or a member, objects are read by id.
func TestIncompleteLists(t *testing.T) {
	for name, c := range map[string]struct {
		list        http.HandlerFunc
		lists, gets int
	}{
		"403":           {answer(403, ``), 1, 3},
		"404":           {answer(404, ``), 1, 3},
		"405":           {answer(405, ``), 1, 3},
		"invalid JSON":  {answer(200, `{"networkVolumes":[{"id":"id1"`), 1, 3},
		"no list":       {answer(200, `{}`), 1, 3},
		"over 64 MiB":   {hugeList, 1, 3},
		"500":           {answer(500, ``), 4, 3},
		"empty":         {answer(200, `{"networkVolumes":[]}`), 1, 3},
		"without id2":   {answer(200, `{"networkVolumes":[{"id":"id1","name":"v","size":10,"dataCenter":"EU-RO-1","type":"x"},{"id":"id3","name":"v","size":10,"dataCenter":"EU-RO-1","type":"x"}]}`), 1, 1},
		"without sizes": {answer(200, `{"networkVolumes":[{"id":"id1","name":"v","dataCenter":"EU-RO-1","type":"x"},{"id":"id2","name":"v","dataCenter":"EU-RO-1","type":"x"},{"id":"id3","name":"v","dataCenter":"EU-RO-1","type":"x"}]}`), 1, 3},
		"with one size": {answer(200, `{"networkVolumes":[{"id":"id1","name":"v","size":10,"dataCenter":"EU-RO-1","type":"x"},{"id":"id2","name":"v","dataCenter":"EU-RO-1","type":"x"},{"id":"id3","name":"v","dataCenter":"EU-RO-1","type":"x"}]}`), 1, 2},
	} {
		runInBubble(t, name, func(t *testing.T) {
			s := fakeWithVolumes(3)
			s.list = c.list
			client := s.newClient(t)
			for range 2 {
				readAll(t, client, 3)
			}
			// Objects that were read by id are cached, too.
			must.Hold(t, s.lists == c.lists && s.gets == c.gets, s.lists, "lists and", s.gets, "reads, want", c.lists, c.gets)
		})
	}
	for name, list := range map[string]http.HandlerFunc{"401": answer(401, ``), "429": answer(429, ``, "Retry-After", "3600")} {
		synctest.Test(t, func(t *testing.T) {
			s := fakeWithVolumes(1)
			s.list = list
			_, err := s.newClient(t).NetworkVolumes.Get(t.Context(), "id1")
			must.Hold(t, err != nil && s.gets == 0, name, "got", err, "after", s.gets, "reads")
		})
	}
}

// If one kind's list is too large, another list shows that the server is the API.
func TestVerifyDespiteAHugeList(t *testing.T) {
	d := &deployment{answers: []http.HandlerFunc{hugeList, answer(200, emptyList["/v2/network-volumes"])}}
	must.Succeed(t, pipe(t, d, api.Settings{SharedReads: true}).Verify(t.Context()))
}

// A list without a member causes one read by id, and more only if that answer has the member.
func TestMemberThatNoAnswerHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeAPI{}
		for range 20 {
			s.add(map[string]any{"name": "v", "size": 10, "dataCenter": "EU-RO-1"})
		}
		c := s.newClient(t)
		for range 20 {
			readAll(t, c, 20)
		}
		first := s.gets
		must.Hold(t, first <= 20, "20 rounds took", first, "reads by id")
		other := s.newClient(t)
		for i := range 20 {
			must.Do(other.NetworkVolumes.Get(t.Context(), fmt.Sprintf("id%d", i+1)))(t)
		}
		must.Equal(t, s.gets-first, 1, "reads by id of a client that reads one object after the other")
	})
}

// An object that the list lacks may exist: only a read by id shows that it doesn't.
func TestAbsenceNeedsAReadByID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakeWithVolumes(2)
		_, err := s.newClient(t).NetworkVolumes.Get(t.Context(), "id3")
		must.Hold(t, api.IsNotFound(err) && s.lists == 1 && s.gets == 1, "got", err, "after", s.lists, "lists and", s.gets, "reads")
	})
}

// After a write of the same run, reads of the kind aren't served from older lists.
func TestNeverStaleAfterAWrite(t *testing.T) {
	resizeAll := func(s *fakeAPI, size int) { // as another client would
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, o := range s.objects {
			o["size"] = size
		}
	}
	for name, write := range map[string]func(context.Context, *api.Client) error{
		"create": func(ctx context.Context, c *api.Client) error {
			return must.Err(c.NetworkVolumes.Create(ctx, volume("w")))
		},
		"update": func(ctx context.Context, c *api.Client) error {
			return must.Err(c.NetworkVolumes.Update(ctx, api.NetworkVolume{ID: "id2", Name: "v", Size: 10}, api.NetworkVolume{Name: "x", Size: 10}))
		},
		"delete":         func(ctx context.Context, c *api.Client) error { return c.NetworkVolumes.Delete(ctx, "id2") },
		"refused delete": func(ctx context.Context, c *api.Client) error { c.NetworkVolumes.Delete(ctx, "id9"); return nil },
	} {
		runInBubble(t, name, func(t *testing.T) {
			s := fakeWithVolumes(3)
			c := s.newClient(t)
			readAll(t, c, 3)
			resizeAll(s, 20)
			got, _ := c.NetworkVolumes.Get(t.Context(), "id1")
			must.Hold(t, got.Size == 10, "before the write, the cached list has size 10, and the read returned", got)
			must.Succeed(t, write(t.Context(), c))
			for range 2 {
				got, _ := c.NetworkVolumes.Get(t.Context(), "id1")
				must.Hold(t, got.Size == 20, "after the write, the size is 20, and the read returned", got)
			}
			must.Equal(t, s.gets, 1, "reads by id")
			list, err := c.NetworkVolumes.List(t.Context())
			must.Hold(t, err == nil && !slices.ContainsFunc(list, func(v api.NetworkVolume) bool { return v.ID == "id1" && v.Size != 20 }), "listed", list, err)
		})
	}
}

// A list that was requested before a write ended doesn't serve reads after the write.
func TestListDuringAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakeWithVolumes(2)
		var slowLists http.HandlerFunc = func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.Count(r.URL.Path, "/") == 2 {
				time.Sleep(5 * time.Second)
				answer(200, `{"networkVolumes":[{"id":"id1","name":"old","size":10,"dataCenter":"x","type":"x"}]}`)(w, r)
				return
			}
			s.ServeHTTP(w, r)
		}
		c := pipe(t, slowLists, api.Settings{SharedReads: true})
		var group sync.WaitGroup
		group.Go(func() { // began before the write: both answers are valid
			must.Do(c.NetworkVolumes.Get(t.Context(), "id1"))(t)
		})
		time.Sleep(time.Second)
		must.Do(c.NetworkVolumes.Update(t.Context(), api.NetworkVolume{ID: "id1", Name: "v"}, api.NetworkVolume{Name: "new"}))(t)
		for range 2 {
			got := must.Do(c.NetworkVolumes.Get(t.Context(), "id1"))(t)
			must.Hold(t, got.Name == "new", "a read after the write returned", got)
			group.Wait()
		}
	})
}

// If the reader that requested the list is interrupted, the other readers still get the list.
func TestInterruptedReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakeWithVolumes(2)
		slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(5 * time.Second)
			s.ServeHTTP(w, r)
		})
		c := pipe(t, slow, api.Settings{SharedReads: true})
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(map[string]error)
		var mu sync.Mutex
		var group sync.WaitGroup
		for id, ctx := range map[string]context.Context{"id1": ctx, "id2": t.Context()} {
			group.Go(func() {
				_, err := c.NetworkVolumes.Get(ctx, id)
				mu.Lock()
				defer mu.Unlock()
				errs[id] = err
			})
		}
		synctest.Wait()
		time.Sleep(time.Second)
		cancel()
		group.Wait()
		must.ErrorContains(t, errs["id1"], "listing the network volumes: interrupted")
		must.Hold(t, errs["id2"] == nil && s.lists == 1, "the other reader got", errs["id2"], "after", s.lists, "lists")
	})
}

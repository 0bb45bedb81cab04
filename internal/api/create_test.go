package api_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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

// fakeAPI is a deployment of API v2. faults[0] answers the first POST; create creates its object.
type fakeAPI struct {
	member      string // "networkVolumes", "templates", "registries" or "endpoints"
	uniqueNames bool
	faults      []fault

	mu         sync.Mutex
	objects    []map[string]any
	posts      int
	lists      int
	gets       int
	lastID     int
	staleLists int              // number of lists that lack the newest object
	early404s  int              // number of requests by id that get 404
	list       http.HandlerFunc // answers lists instead; may be nil
}

type fault = func(w http.ResponseWriter, r *http.Request, create func() string)

// equalVolume is an object of a fakeAPI that equals volume("v").
func equalVolume() map[string]any {
	return map[string]any{"name": "v", "size": 10, "dataCenter": "EU-RO-1", "type": "STANDARD"}
}

func (s *fakeAPI) add(object map[string]any) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	object["id"] = fmt.Sprintf("id%d", s.lastID)
	s.objects = append(s.objects, object)
	return object["id"].(string)
}

func (s *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.Method == http.MethodPost:
		var object map[string]any
		json.Unmarshal(body, &object)
		s.mu.Lock()
		s.posts++
		n := s.posts
		taken := s.uniqueNames && slices.ContainsFunc(s.objects, func(o map[string]any) bool { return o["name"] == object["name"] })
		s.mu.Unlock()
		create := func() string {
			delete(object, "password")
			delete(object, "username")
			s.add(object)
			text, _ := json.Marshal(object)
			return string(text)
		}
		switch {
		case n <= len(s.faults) && s.faults[n-1] != nil:
			s.faults[n-1](w, r, create)
		case taken:
			answer(400, `{"title":"Bad Request","status":400,"detail":"the name is taken"}`)(w, r)
		default:
			answer(201, create())(w, r)
		}
	case len(segments) == 2 || segments[len(segments)-1] == "secrets":
		s.mu.Lock()
		s.lists++
		objects, list := append([]map[string]any{}, s.objects...), s.list
		if s.lists <= s.staleLists && len(objects) > 0 {
			objects = objects[:len(objects)-1]
		}
		slices.Reverse(objects)
		s.mu.Unlock()
		if list != nil {
			list(w, r)
			return
		}
		text, _ := json.Marshal(map[string]any{s.member: append([]map[string]any{}, objects...)})
		answer(200, string(text))(w, r)
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.Method == http.MethodGet {
			s.gets++
		}
		i := slices.IndexFunc(s.objects, func(o map[string]any) bool { return o["id"] == segments[2] })
		if i < 0 || s.early404s > 0 {
			s.early404s--
			answer(404, `{"title":"Not Found","status":404}`)(w, r)
			return
		}
		if r.Method == http.MethodDelete {
			s.objects = slices.Delete(s.objects, i, i+1)
			answer(204, ``)(w, r)
			return
		}
		var changes map[string]any
		json.Unmarshal(body, &changes)
		for name, value := range changes {
			s.objects[i][name] = value
		}
		text, _ := json.Marshal(s.objects[i])
		answer(200, string(text))(w, r)
	}
}

// newClient returns a client of the fakeAPI, for one run.
func (s *fakeAPI) newClient(t *testing.T) *api.Client {
	t.Helper()
	s.member = cmp.Or(s.member, "networkVolumes")
	return pipe(t, s, api.Settings{SharedReads: true})
}

// loseAnswer replaces the answer to a POST by loss. If created is set, the POST creates its object.
func loseAnswer(created bool, loss http.HandlerFunc) fault {
	return func(w http.ResponseWriter, r *http.Request, create func() string) {
		if created {
			create()
		}
		loss(w, r)
	}
}

var losses = map[string]http.HandlerFunc{
	"500": answer(500, ``), "502": answer(502, ``), "503": answer(503, ``), "504": answer(504, ``),
	"hung up": hangUp, "cut off": cutOff, "stalled": stall, "no object": answer(201, `{}`), "no body": answer(204, ``),
	"a path as id": answer(201, `{"id":"../../pods/x"}`), "an escape as id": answer(201, `{"id":"a%2fb"}`), "a terminal escape as id": answer(201, `{"id":"a\u001b[31m"}`),
	"a blank as id": answer(201, `{"id":" "}`), "a number as id": answer(201, `{"id":7}`), "null as id": answer(201, `{"id":null}`), "a query as id": answer(201, `{"id":"a?b"}`),
	"a long id": answer(201, `{"id":"`+strings.Repeat("a", 5000)+`"}`), "an id that is not ASCII": answer(201, `{"id":"ä"}`),
}

func volume(name string) api.NetworkVolume {
	return api.NetworkVolume{Name: name, Size: 10, DataCenter: "EU-RO-1", Type: new("STANDARD")}
}

// After a lost answer, the created object is found beside an older, equal one. A unique name makes another POST safe.
func TestLostCreate(t *testing.T) {
	losses := maps.Clone(losses)
	losses["an older id"] = answer(201, `{"id":"id1"}`)
	for name, loss := range losses {
		for _, created := range []bool{false, true} {
			runInBubble(t, fmt.Sprint(name, " created ", created), func(t *testing.T) {
				s := fakeWithVolumes(1)
				s.faults = []fault{loseAnswer(created, loss)}
				got, err := s.newClient(t).NetworkVolumes.Create(t.Context(), volume("v"))
				unresolved, ok := errors.AsType[*api.UnresolvedCreateError](err)
				must.Require(t, s.posts == 1 && (created && err == nil && got.ID == "id2" || !created && got.ID == "" && ok && len(unresolved.Candidates) == 0), "the volume's create returned", got, err, "after", s.posts, "POSTs")
				must.Hold(t, created || strings.Contains(err.Error(), "probably not created"), `expected "probably not created" in`, err)
				if name == "an older id" {
					return
				}
				s = &fakeAPI{member: "templates", uniqueNames: true, faults: []fault{loseAnswer(created, loss), loseAnswer(created, loss)}}
				template, err := s.newClient(t).Templates.Create(t.Context(), api.Template{Name: "t", Image: "i", Env: map[string]string{"A": "1"}})
				must.Hold(t, err == nil && template.ID == "id1" && template.Image == "i" && s.posts == map[bool]int{true: 1, false: 3}[created], "the template's create returned", template, err, "after", s.posts, "POSTs")

				s = &fakeAPI{member: "templates", uniqueNames: true, faults: []fault{loseAnswer(created, loss)}, staleLists: 4}
				template, err = s.newClient(t).Templates.Create(t.Context(), api.Template{Name: "t", Image: "i"})
				must.Hold(t, err == nil && template.ID == "id1" && s.posts == 2, "with lists that lag behind, the template's create returned", template, err, "after", s.posts, "POSTs")

				never := loseAnswer(false, loss)
				s = &fakeAPI{member: "templates", uniqueNames: true, faults: []fault{loseAnswer(created, loss), never, never, never}, staleLists: 5}
				template, err = s.newClient(t).Templates.Create(t.Context(), api.Template{Name: "t", Image: "i"})
				must.Hold(t, (err == nil && template.ID == "id1") == created && s.posts == 4, "after the last POST, the template's create returned", template, err, "after", s.posts, "POSTs")
			})
		}
	}
}

// If the list, too, has an invalid id for the new object, it is neither adopted nor named in an import command.
func TestInvalidIDInTheList(t *testing.T) {
	for _, id := range []string{"../../pods/x", "a%2fb", "$(reboot)", "a b", "a\x1b[31m", strings.Repeat("a", 5000)} {
		synctest.Test(t, func(t *testing.T) {
			created := equalVolume()
			created["id"] = id
			text, _ := json.Marshal(created)
			s := &fakeAPI{}
			s.faults = []fault{func(w http.ResponseWriter, r *http.Request, _ func() string) {
				s.add(created)
				created["id"] = id
				answer(201, string(text))(w, r)
			}}
			got, err := s.newClient(t).NetworkVolumes.Create(t.Context(), volume("v"))
			unresolved, ok := errors.AsType[*api.UnresolvedCreateError](err)
			if !ok || len(unresolved.Candidates) > 0 || got.ID != "" || s.posts != 1 || len(err.Error()) > 1000 ||
				!strings.Contains(err.Error(), "under an id that can't be used") || strings.ContainsRune(err.Error(), 0x1b) {
				t.Errorf("%q: got %+v, %v", id, got, err)
			}
		})
	}
}

// If several new objects may be the result of a lost create, none is adopted.
func TestAmbiguousCreateAdoptsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile  []map[string]any
		list       http.HandlerFunc
		candidates []string
		says       string
	}{
		"another equal object appears": {[]map[string]any{equalVolume()}, nil, []string{"id1", "id2"}, "several new network volumes"},
		"the same name, larger":        {[]map[string]any{{"name": "v", "size": 20, "dataCenter": "EU-RO-1", "type": "STANDARD"}}, nil, nil, ""},
		"the same name, elsewhere":     {[]map[string]any{{"name": "v", "size": 10, "dataCenter": "X", "type": "STANDARD"}}, nil, nil, ""},
		"another name":                 {[]map[string]any{{"name": "w", "size": 10, "dataCenter": "EU-RO-1", "type": "STANDARD"}}, nil, nil, ""},
		"the list is refused with 403": {nil, answer(403, `{"title":"Forbidden","status":403}`), nil, "the list of network volumes is refused"},
	} {
		runInBubble(t, name, func(t *testing.T) {
			s := &fakeAPI{list: c.list}
			s.faults = []fault{func(w http.ResponseWriter, r *http.Request, create func() string) {
				for _, o := range c.meanwhile {
					s.add(o)
				}
				create()
				if c.says == "" { // the first list after the POST is cut off, and the next ones lag behind
					s.staleLists = 4
					s.list = func(w http.ResponseWriter, r *http.Request) { s.list = nil; answer(200, `{"networkVolumes":[`)(w, r) }
				}
				hangUp(w, r)
			}}
			got, err := s.newClient(t).NetworkVolumes.Create(t.Context(), volume("v"))
			if c.says == "" {
				must.Hold(t, err == nil && got.ID == "id2", "expected id2 and got", got, err)
				return
			}
			unresolved, ok := errors.AsType[*api.UnresolvedCreateError](err)
			must.Hold(t, ok && slices.Equal(unresolved.Candidates, c.candidates) && strings.Contains(err.Error(), c.says) && s.posts == 1, "expected the error", c.says, "with the candidates", c.candidates, "and got", err, "after", s.posts, "POSTs")
		})
	}
}

// If answers to concurrent, equal creates are lost, each create gets its own object, and none is created twice.
func TestConcurrentEqualCreates(t *testing.T) {
	const n = 6
	for mask := range 1 << n { // bit i is set if the answer to POST i is lost
		synctest.Test(t, func(t *testing.T) {
			s := &fakeAPI{}
			for i := range n {
				slow := time.Duration(i*37%n) * time.Second
				s.faults = append(s.faults, func(w http.ResponseWriter, r *http.Request, create func() string) {
					if mask>>i&1 == 1 {
						create()
						time.Sleep(slow)
						hangUp(w, r)
						return
					}
					time.Sleep(slow)
					answer(201, create())(w, r)
				})
			}
			c := s.newClient(t)
			ids := make([]string, n)
			var group sync.WaitGroup
			for i := range n {
				group.Go(func() {
					got, err := c.NetworkVolumes.Create(t.Context(), volume("v"))
					must.ErrorIs(t, err, nil, "mask", mask)
					ids[i] = got.ID
				})
			}
			group.Wait()
			slices.Sort(ids)
			must.Hold(t, len(slices.Compact(ids)) == n && len(s.objects) == n && s.posts == n, "mask", mask, len(s.objects), "objects, owned", ids, "after", s.posts, "POSTs")
		})
	}
}

// An existing object with the name is never adopted, even if the answer to the POST was lost. The error names it.
func TestTakenName(t *testing.T) {
	templateObject := func(image string) map[string]any {
		return map[string]any{"name": "t", "image": image, "args": "", "disk": 50, "env": map[string]any{}, "ports": []string{},
			"registry": nil, "public": false, "serverless": false, "category": "NVIDIA"}
	}
	want := api.Template{Name: "t", Image: "i", Disk: 50, Category: "NVIDIA"}
	for name, c := range map[string]struct {
		image         string
		existed, lost bool
	}{
		"equal, existed before the run":                       {"i", true, false},
		"equal, existed before the run, answer lost":          {"i", true, true},
		"other settings, existed before the run":              {"j", true, false},
		"other settings, existed before the run, answer lost": {"j", true, true},
		"equal, created elsewhere during the run":             {"i", false, false},
		"other settings, created elsewhere during the run":    {"j", false, false},
	} {
		runInBubble(t, name, func(t *testing.T) {
			s := &fakeAPI{member: "templates", uniqueNames: true}
			if c.lost {
				s.faults = []fault{loseAnswer(false, hangUp)}
			}
			run := s.newClient(t)
			if c.existed {
				s.add(templateObject(c.image))
			}
			matches := run.Templates.ExistingMatches(t.Context(), want)
			must.Equal(t, len(matches) == 1 && matches[0].NameTaken && matches[0].Equal == (c.image == "i"), c.existed, "the existing template is the only match of", matches)
			if !c.existed {
				s.add(templateObject(c.image))
			}
			got, err := run.Templates.Create(t.Context(), want)
			unresolved, ok := errors.AsType[*api.UnresolvedCreateError](err)
			must.Hold(t, ok && slices.Equal(unresolved.Candidates, []string{"id1"}) && strings.Contains(err.Error(), "another template has the name") && len(s.objects) == 1, "expected an error that names id1 and got", got, err)
		})
	}
}

// After a lost answer, an auth is deleted and created again, because no answer has its credentials. An older auth stays.
func TestLostAuthCreate(t *testing.T) {
	want := api.RegistryAuth{Name: "r", Username: "u", Password: "new"}
	for name, c := range map[string]struct {
		existed  bool // an auth with the name existed before the run
		losses   int
		created  string // "" if no object may be returned
		succeeds bool
		stale    int // lists without the auth
	}{
		"one answer lost":             {false, 1, "id2", true, 0},
		"one answer lost, lists lag":  {false, 1, "id2", true, 4},
		"two answers lost":            {false, 2, "id3", true, 0},
		"all answers lost":            {false, 9, "id4", false, 0},
		"the name is taken, one lost": {true, 1, "", false, 0},
		"the name is taken, all lost": {true, 9, "", false, 0},
	} {
		runInBubble(t, name, func(t *testing.T) {
			s := &fakeAPI{member: "registries", uniqueNames: true, staleLists: c.stale}
			for range c.losses {
				s.faults = append(s.faults, func(w http.ResponseWriter, r *http.Request, create func() string) {
					if !c.existed {
						create()
					}
					hangUp(w, r)
				})
			}
			if c.existed {
				s.add(map[string]any{"name": "r"})
			}
			got, err := s.newClient(t).RegistryAuths.Create(t.Context(), want)
			must.Hold(t, got.ID == c.created && (err == nil) == c.succeeds && len(s.objects) == 1 && (c.created == "" || s.objects[0]["id"] == c.created),
				"got", got, err, "after", s.posts, "POSTs; there is", s.objects)
			unresolved, ok := errors.AsType[*api.UnresolvedCreateError](err)
			must.Hold(t, !c.existed || ok && slices.Equal(unresolved.Candidates, []string{"id1"}), "expected an error that names id1 and got", err)
			must.Hold(t, c.existed || err == nil || strings.Contains(err.Error(), "the next apply creates it again"), `expected "the next apply creates it again" in`, err)
		})
	}
}

// If Terraform is interrupted after a create was sent, the client finds its result within seconds.
func TestInterruptedCreate(t *testing.T) {
	for name, c := range map[string]struct {
		fault    fault
		succeeds bool
	}{
		"the answer comes": {func(w http.ResponseWriter, r *http.Request, create func() string) {
			time.Sleep(3 * time.Second)
			answer(201, create())(w, r)
		}, true},
		"no answer comes":    {func(w http.ResponseWriter, r *http.Request, create func() string) { create(); stall(w, r) }, true},
		"nothing is created": {func(w http.ResponseWriter, r *http.Request, _ func() string) { stall(w, r) }, false},
		"Retry-After": {func(w http.ResponseWriter, r *http.Request, _ func() string) {
			answer(429, ``, "Retry-After", "60")(w, r)
		}, false},
	} {
		runInBubble(t, name, func(t *testing.T) {
			s := &fakeAPI{faults: []fault{c.fault}}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			client, began := s.newClient(t), time.Now()
			got, err := client.NetworkVolumes.Create(ctx, volume("v"))
			must.Hold(t, (err == nil) == c.succeeds && (!c.succeeds || got.ID == "id1") && time.Since(began) <= 10*time.Second && s.posts == 1,
				"got", got, err, "after", time.Since(began), "and", s.posts, "POSTs")
			_, unresolved := errors.AsType[*api.UnresolvedCreateError](err)
			must.Hold(t, name != "Retry-After" || !unresolved && time.Since(began) == time.Second, "got", err, "after", time.Since(began))
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := &fakeAPI{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.newClient(t).NetworkVolumes.Create(ctx, volume("v"))
		must.Hold(t, errors.Is(err, context.Canceled) && s.posts+s.lists == 0, "already interrupted", err, "after", s.posts, "POSTs")
	})
}

// A 404 right after a create doesn't mean that the object is gone, even if the answer to the create was lost.
func TestRecentCreateToleratesNotFound(t *testing.T) {
	for name, send := range map[string]func(context.Context, *api.Client, string) error{
		"read": func(ctx context.Context, c *api.Client, id string) error {
			return must.Err(c.NetworkVolumes.Get(ctx, id))
		},
		"update": func(ctx context.Context, c *api.Client, id string) error {
			have, want := volume("v"), volume("w")
			have.ID = id
			return must.Err(c.NetworkVolumes.Update(ctx, have, want))
		},
		"delete": func(ctx context.Context, c *api.Client, id string) error { return c.NetworkVolumes.Delete(ctx, id) },
		"read of its workers": func(ctx context.Context, c *api.Client, id string) error {
			if err := must.Err(c.EndpointWorkers(ctx, id)); api.IsNotFound(err) {
				return err
			}
			return nil // the object has no workers
		},
	} {
		for n, age := range []time.Duration{0, 0, 2 * time.Minute} {
			runInBubble(t, fmt.Sprint(name, n), func(t *testing.T) {
				s := &fakeAPI{}
				if n == 0 {
					s.faults = []fault{loseAnswer(true, answer(500, ``))}
				}
				c := s.newClient(t)
				created := must.Do(c.NetworkVolumes.Create(t.Context(), volume("v")))(t)
				time.Sleep(age)
				s.early404s = 3
				err := send(t.Context(), c, created.ID)
				tolerated := s.early404s == 0 && err == nil
				must.Equal(t, tolerated, age == 0, "the 404s are tolerated; error", err, "with", s.early404s, "of 3 left")
			})
		}
	}
	// A later run gets the time of the create from the state.
	synctest.Test(t, func(t *testing.T) {
		s := &fakeAPI{early404s: 2, staleLists: 1}
		id := s.add(map[string]any{"name": "v"})
		c := s.newClient(t)
		c.RestoreCreateTime(id, time.Now().Add(-10*time.Second))
		must.Do(c.NetworkVolumes.Get(t.Context(), id))(t)
	})
}

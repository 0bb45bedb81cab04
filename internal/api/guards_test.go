package api_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// writes has creates and other writes; the variable kinds has the updates and deletions.
var writes = map[string]func(context.Context, *api.Client) error{
	"create template": func(ctx context.Context, c *api.Client) error {
		return must.Err(c.Templates.Create(ctx, api.Template{Name: "n", Image: "i"}))
	},
	"create network volume": func(ctx context.Context, c *api.Client) error {
		return must.Err(c.NetworkVolumes.Create(ctx, volume("n")))
	},
	"create registry auth": func(ctx context.Context, c *api.Client) error {
		return must.Err(c.RegistryAuths.Create(ctx, api.RegistryAuth{Name: "n", Username: "u", Password: "password"}))
	},
	"create endpoint": func(ctx context.Context, c *api.Client) error {
		return must.Err(c.Endpoints.Create(ctx, api.Endpoint{Name: "n", TemplateID: new("t"), Type: "QUEUE"}))
	},
	"create pod": func(ctx context.Context, c *api.Client) error {
		return must.Err(c.Pods.Create(ctx, api.Pod{Name: "n", GPU: &api.PodGPU{ID: "g"}}))
	},
	"stop pod":     func(ctx context.Context, c *api.Client) error { return c.Pods.Act(ctx, "a", api.StopPod) },
	"set SSH keys": func(ctx context.Context, c *api.Client) error { return must.Err(c.SSHKeys.Set(ctx, nil)) },
}

// writeRecorder records writes. It answers lists with listAnswer, and other requests with otherAnswer.
type writeRecorder struct {
	listAnswer, otherAnswer http.HandlerFunc

	mu     sync.Mutex
	writes []string
}

func (s *writeRecorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		s.mu.Lock()
		s.writes = append(s.writes, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
	}
	if strings.Count(r.URL.Path, "/") == 2 && r.Method == http.MethodGet {
		s.listAnswer(w, r)
		return
	}
	s.otherAnswer(w, r)
}

func (s *writeRecorder) receivedWrites() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

func listNothing(w http.ResponseWriter, r *http.Request) { answer(200, emptyList[r.URL.Path])(w, r) }

// The client sends no write to a server whose lists it can't read.
func TestNoWriteWithoutAList(t *testing.T) {
	page := answer(200, "<html><title>Hello</title></html>", "Content-Type", "text/html")
	object := answer(200, `{"id":"a","name":"n"}`)
	calls := maps.Clone(writes)
	for _, kind := range kinds {
		calls["update "+kind.name], calls["delete "+kind.name] = kind.update, kind.del
	}
	for name, s := range map[string]struct {
		listAnswer, otherAnswer http.HandlerFunc
		written                 bool
	}{
		"the API":                          {listNothing, object, true},
		"a web page for everything":        {page, page, false},
		"a web page for lists":             {page, object, false},
		"another API's object":             {answer(200, `{}`), object, false},
		"an empty body":                    {answer(200, ``), object, false},
		"404 as a web page":                {answer(404, `<html>`), object, false},
		"404 in the form of API v2 and v1": {answer(404, `{"title":"Not Found","status":404,"message":"none"}`), object, false},
		"403 as a web page":                {answer(403, `<html>`), object, false},
		"a redirection to another host":    {answer(302, ``, "Location", "http://elsewhere/"), object, false},
		"502 for lists, success otherwise": {answer(502, ``), object, false},
	} {
		for _, version := range versions {
			for call, write := range calls {
				if write == nil || version == api.V1 && strings.Contains(call, "cluster") {
					continue
				}
				runInBubble(t, strings.Join([]string{name, string(version), call}, "/"), func(t *testing.T) {
					d := &writeRecorder{listAnswer: s.listAnswer, otherAnswer: s.otherAnswer}
					err := write(t.Context(), pipe(t, d, api.Settings{Version: version, SharedReads: true}))
					got := d.receivedWrites()
					must.Hold(t, len(got) > 0 == s.written && (err != nil || s.written), "the writes that arrived are", got, "error", err)
				})
			}
		}
	}
}

// After a 403 in the API's form, writes are sent; after a 403 in any other form they aren't.
func TestForbiddenProvesTheAPI(t *testing.T) {
	problem, message := `{"title":"Forbidden","status":403}`, `{"message":"no access"}`
	for name, c := range map[string]struct {
		version api.Version
		body    string
		proves  bool
	}{
		"v2, its own form":           {api.V2, problem, true},
		"v1, its own form":           {api.V1, message, true},
		"v2, another status":         {api.V2, `{"title":"Forbidden","status":401}`, false},
		"v2, the form of v1":         {api.V2, message, false},
		"v1, the form of v2":         {api.V1, problem, false},
		"v2, a web page":             {api.V2, `<html><title>403 Forbidden</title></html>`, false},
		"v1, a web page":             {api.V1, `<html><title>403 Forbidden</title></html>`, false},
		"v2, text":                   {api.V2, `forbidden`, false},
		"v1, no body":                {api.V1, ``, false},
		"v1, JSON of something else": {api.V1, `{"id":"a"}`, false},
	} {
		runInBubble(t, name, func(t *testing.T) {
			d := &writeRecorder{listAnswer: answer(403, c.body), otherAnswer: answer(201, `{"id":"a","name":"n"}`)}
			client := pipe(t, d, api.Settings{Version: c.version, SharedReads: true})
			err := client.Verify(t.Context())
			must.Hold(t, (err == nil) == c.proves, "Verify returned", err)
			err = writes["create template"](t.Context(), client)
			got := d.receivedWrites()
			must.Hold(t, len(got) > 0 == c.proves && (err == nil) == c.proves, "the writes that arrived are", got, "error", err)
		})
	}
}

// If this run has read an object, a create that lost its answer doesn't adopt the object, and a plan doesn't report it.
func TestObjectThatWasReadIsNotAdopted(t *testing.T) {
	for _, reads := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeAPI{staleLists: 2, faults: []fault{loseAnswer(false, hangUp)}}
			id := s.add(equalVolume())
			c := s.newClient(t)
			if reads {
				must.Do(c.NetworkVolumes.Get(t.Context(), id))(t)
			} else {
				must.Do(c.NetworkVolumes.List(t.Context()))(t)
			}
			got, err := c.NetworkVolumes.Create(t.Context(), volume("v"))
			unresolved, ok := errors.AsType[*api.UnresolvedCreateError](err)
			must.Hold(t, s.lists >= 3, s.lists, "lists: the object never showed")
			must.Hold(t, !reads || ok && len(unresolved.Candidates) == 0 && got.ID == "", "read before: got", got, err)
			must.Hold(t, reads || err == nil && got.ID == id, "not read before: got", got, err) // without the read, the result differs
		})
		synctest.Test(t, func(t *testing.T) {
			s := &fakeAPI{}
			id := s.add(equalVolume())
			c := s.newClient(t)
			if reads {
				must.Do(c.NetworkVolumes.Get(t.Context(), id))(t)
			}
			matches := c.NetworkVolumes.ExistingMatches(t.Context(), volume("v"))
			must.Hold(t, (len(matches) == 0) == reads, "read before", reads, "matches", matches)
			matches = c.NetworkVolumes.ExistingMatches(t.Context(), volume("v"))
			must.Hold(t, len(matches) == 0, "another plan of the run matches again", matches)
		})
	}
}

// An object that this run deleted isn't adopted by a create whose answer was lost, even if a list still shows it.
func TestDeletedObjectIsNotAdopted(t *testing.T) {
	const (
		oldVolume   = `{"id":"old","name":"v","size":10,"dataCenter":"EU-RO-1","type":"STANDARD"}`
		oldTemplate = `{"id":"old","name":"t","image":"i","category":"NVIDIA","args":"","disk":0,"env":{},"ports":[],"registry":null,"public":false,"serverless":false}`
	)
	for _, deletes := range []bool{false, true} {
		// lagging shows the object only in lists after the first POST, which creates nothing and whose answer is lost.
		lagging := func(path, member, old, created string) (http.Handler, *int) {
			posts := new(int)
			mux := http.NewServeMux()
			mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
				objects := ""
				if *posts > 0 {
					objects = old
				}
				answer(200, `{"`+member+`":[`+objects+`]}`)(w, r)
			})
			mux.HandleFunc("GET "+path+"/old", answer(200, old))
			mux.HandleFunc("DELETE "+path+"/old", answer(204, ``))
			mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
				if *posts++; *posts == 1 {
					hangUp(w, r)
					return
				}
				answer(201, created)(w, r)
			})
			return mux, posts
		}
		synctest.Test(t, func(t *testing.T) {
			handler, posts := lagging("/v2/network-volumes", "networkVolumes", oldVolume, ``)
			c := pipe(t, handler, api.Settings{SharedReads: true})
			if deletes {
				must.Succeed(t, c.NetworkVolumes.Delete(t.Context(), "old"))
			}
			got, err := c.NetworkVolumes.Create(t.Context(), volume("v"))
			unresolved, ok := errors.AsType[*api.UnresolvedCreateError](err)
			must.Hold(t, !deletes || ok && len(unresolved.Candidates) == 0 && *posts == 1, "volume, deleted before: got", got, err, "after", *posts, "POSTs")
			must.Hold(t, deletes || err == nil && got.ID == "old", "volume, not deleted before: got", got, err) // without the deletion, the result differs
		})
		synctest.Test(t, func(t *testing.T) {
			handler, posts := lagging("/v2/templates", "templates", oldTemplate, strings.Replace(oldTemplate, "old", "new", 1))
			c := pipe(t, handler, api.Settings{SharedReads: true})
			if deletes {
				must.Succeed(t, c.Templates.Delete(t.Context(), "old"))
			}
			got, err := c.Templates.Create(t.Context(), api.Template{Name: "t", Image: "i", Category: "NVIDIA"})
			want := map[bool]string{true: "new", false: "old"}[deletes]
			must.Hold(t, err == nil && got.ID == want && *posts == map[bool]int{true: 2, false: 1}[deletes],
				"template, deleted before", deletes, "got", got, err, "after", *posts, "POSTs")
		})
	}
}

// An older object isn't adopted by a create whose answer was lost. This holds even if the plan's list was in flight
// while an object of another kind was created, or if the run wrote the kind before it listed it.
func TestOlderEqualObjectIsNotAdopted(t *testing.T) {
	const old = `{"id":"old","name":"t","image":"i","category":"NVIDIA"}`
	want := api.Template{Name: "t", Image: "i", Category: "NVIDIA"}
	deployment := func(beforeList func()) http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v2/templates", func(w http.ResponseWriter, r *http.Request) {
			beforeList()
			answer(200, `{"templates":[`+old+`]}`)(w, r)
		})
		mux.HandleFunc("GET /v2/registries", answer(200, `{"registries":[]}`))
		mux.HandleFunc("GET /v2/templates/old", answer(200, old))
		mux.HandleFunc("DELETE /v2/templates/other", answer(204, ``))
		mux.HandleFunc("POST /v2/templates", answer(502, ``))
		mux.HandleFunc("POST /v2/registries", answer(201, `{"id":"r","name":"r"}`))
		return mux
	}
	expectNotAdopted := func(t *testing.T, c *api.Client) {
		t.Helper()
		got, err := c.Templates.Create(t.Context(), want)
		unresolved, ok := errors.AsType[*api.UnresolvedCreateError](err)
		must.Hold(t, ok && slices.Equal(unresolved.Candidates, []string{"old"}), "got", got, err)
	}
	synctest.Test(t, func(t *testing.T) {
		listed := make(chan struct{})
		c := pipe(t, deployment(func() { <-listed }), api.Settings{SharedReads: true})
		matches := make(chan []api.ExistingMatch)
		go func() { matches <- c.Templates.ExistingMatches(t.Context(), want) }()
		synctest.Wait()
		must.Do(c.RegistryAuths.Create(t.Context(), api.RegistryAuth{Name: "r", Username: "u", Password: "p"}))(t)
		close(listed)
		got := <-matches
		must.Hold(t, len(got) == 1 && got[0].ID == "old", "the plan finds", got)
		expectNotAdopted(t, c)
	})
	synctest.Test(t, func(t *testing.T) {
		c := pipe(t, deployment(func() {}), api.Settings{SharedReads: true})
		must.Succeed(t, c.Templates.Delete(t.Context(), "other"))
		expectNotAdopted(t, c)
	})
}

// If a plan's list ends during a create and has the new object, the plan reports no match: the create may adopt it.
func TestPlanDuringACreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		created, planned := make(chan struct{}), make(chan []api.ExistingMatch)
		s := &fakeAPI{member: "networkVolumes", faults: []fault{func(w http.ResponseWriter, r *http.Request, create func() string) {
			create()
			close(created)
			must.Equal(t, len(<-planned), 0, "matches")
			hangUp(w, r)
		}}}
		requests := 0
		c := pipe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if requests++; requests == 1 {
				<-created
			}
			s.ServeHTTP(w, r)
		}), api.Settings{SharedReads: true})
		go func() { planned <- c.NetworkVolumes.ExistingMatches(t.Context(), volume("v")) }()
		synctest.Wait()
		must.Equal(t, must.Do(c.NetworkVolumes.Create(t.Context(), volume("v")))(t).ID, "id1", "adopted")
	})
}

// An object is absent if a 404 in the API's form says so and its list doesn't contain it.
func TestAbsence(t *testing.T) {
	gone := answer(404, `{"title":"Not Found","status":404,"detail":"none"}`)
	mine, others := `{"networkVolumes":[{"id":"a","name":"n","size":10}]}`, `{"networkVolumes":[{"id":"b","name":"n","size":10,"dataCenter":"d","type":"t"}]}`
	for name, c := range map[string]struct {
		list, object, del http.HandlerFunc
		read, deleted     bool // the error of the read is IsNotFound; the deletion succeeds
	}{
		"the list lacks it":                {answer(200, others), gone, gone, true, true},
		"the list has it":                  {answer(200, mine), gone, gone, false, false},
		"the key may not list":             {answer(403, `{"title":"Forbidden","status":403}`), gone, gone, true, true},
		"the list is missing":              {gone, gone, gone, false, false},
		"the list is a web page":           {answer(200, "<html>"), gone, gone, false, false},
		"a proxy answers":                  {answer(200, others), answer(404, "<html>"), answer(404, "<html>"), false, false},
		"a page answers the deletion":      {answer(200, others), gone, answer(200, "<html>done"), true, false},
		"the deletion is answered by JSON": {answer(200, others), gone, answer(200, "{}"), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			client := func() *api.Client {
				mux := http.NewServeMux()
				mux.HandleFunc("GET /v2/templates", answer(200, `{"templates":[]}`)) // verifies that the server is the API
				mux.HandleFunc("GET /v2/network-volumes", c.list)
				mux.HandleFunc("GET /v2/network-volumes/a", c.object)
				mux.HandleFunc("DELETE /v2/network-volumes/a", c.del)
				return pipe(t, mux, api.Settings{SharedReads: true})
			}
			got, err := client().NetworkVolumes.Get(t.Context(), "a")
			must.Hold(t, api.IsNotFound(err) == c.read && err != nil, "the read returned", got, err)
			err = client().NetworkVolumes.Delete(t.Context(), "a")
			must.Hold(t, (err == nil) == c.deleted, "the deletion returned", err)
		})
	}
}

// If objects can be read only in a list, an answer that isn't a list doesn't mean that they are absent.
func TestAbsenceFromAList(t *testing.T) {
	gone := answer(404, `{"title":"Not Found","status":404,"detail":"none"}`, "X-Request-Id", "r-1")
	for name, c := range map[string]struct {
		list, del http.HandlerFunc
		absent    bool
	}{
		"the list lacks it":              {answer(200, `{"delegations":[]}`), gone, true},
		"404 in the API's own form":      {gone, gone, false},
		"null":                           {answer(200, `{"delegations":null}`), gone, false},
		"no list":                        {answer(200, `{}`), gone, false},
		"an object":                      {answer(200, `{"delegations":{}}`), gone, false},
		"an array":                       {answer(200, `[]`), gone, false},
		"an accepted deletion, and null": {answer(200, `{"delegations":null}`), answer(202, ``), false},
		"an accepted deletion, and 404":  {gone, answer(202, ``), false},
	} {
		for _, shared := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				client := func() *api.Client {
					mux := http.NewServeMux()
					mux.HandleFunc("GET /v2/templates", answer(200, `{"templates":[]}`)) // verifies that the server is the API
					mux.HandleFunc("GET /v2/registries/delegations", c.list)
					mux.HandleFunc("DELETE /v2/registries/delegations/a", c.del)
					return pipe(t, mux, api.Settings{SharedReads: shared})
				}
				got, err := client().Delegations.Get(t.Context(), "a")
				must.Hold(t, api.IsNotFound(err) == c.absent && err != nil, "the read returned", got, err)
				if !shared && !strings.HasPrefix(name, "an accepted deletion") {
					return // without SharedReads, a 404 about the object is enough
				}
				err = client().Delegations.Delete(t.Context(), "a")
				must.Hold(t, (err == nil) == c.absent, "the deletion returned", err)
			})
		}
	}
}

// An answer that isn't a list of pods doesn't mean that a cluster has none.
func TestMissingPodsOfACluster(t *testing.T) {
	for _, list := range []http.HandlerFunc{answer(404, `{"title":"Not Found","status":404}`), answer(200, `{"pods":null}`), answer(200, `{}`)} {
		client, _ := deploy(t, api.V2, list)
		pods, err := client.Clusters.Pods(t.Context(), "a")
		must.Hold(t, err != nil && !api.IsNotFound(err), "got", pods, err)
	}
}

// After an accepted deletion, the list may contain the object longer than a read by id.
func TestListThatLagsBehindADeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v2/network-volumes", func(w http.ResponseWriter, r *http.Request) {
			body := `{"networkVolumes":[{"id":"a"}]}`
			if lists++; lists > 3 {
				body = `{"networkVolumes":[]}`
			}
			answer(200, body)(w, r)
		})
		mux.HandleFunc("GET /v2/network-volumes/a", answer(404, `{"title":"Not Found","status":404}`))
		mux.HandleFunc("DELETE /v2/network-volumes/a", answer(202, ``))
		err := pipe(t, mux, api.Settings{SharedReads: true}).NetworkVolumes.Delete(t.Context(), "a")
		must.Hold(t, err == nil && lists == 4, err, "after", lists, "lists")
	})
}

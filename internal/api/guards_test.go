package api_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// writes has a call for each writing operation of each kind.
var writes = map[string]func(context.Context, *api.Client) error{
	"create template": func(ctx context.Context, c *api.Client) error {
		_, err := c.Templates.Create(ctx, api.Template{Name: "n", Image: "i"})
		return err
	},
	"update template": func(ctx context.Context, c *api.Client) error {
		_, err := c.Templates.Update(ctx, api.Template{ID: "a", Name: "n", Image: "i"}, api.Template{Name: "n", Image: "j"})
		return err
	},
	"delete template": func(ctx context.Context, c *api.Client) error { return c.Templates.Delete(ctx, "a") },
	"create network volume": func(ctx context.Context, c *api.Client) error {
		_, err := c.NetworkVolumes.Create(ctx, volume("n"))
		return err
	},
	"update network volume": func(ctx context.Context, c *api.Client) error {
		_, err := c.NetworkVolumes.Update(ctx, api.NetworkVolume{ID: "a", Name: "n", Size: 10}, api.NetworkVolume{Name: "n", Size: 20})
		return err
	},
	"delete network volume": func(ctx context.Context, c *api.Client) error { return c.NetworkVolumes.Delete(ctx, "a") },
	"create registry auth": func(ctx context.Context, c *api.Client) error {
		_, err := c.RegistryAuths.Create(ctx, api.RegistryAuth{Name: "n", Username: "u", Password: "password"})
		return err
	},
	"delete registry auth": func(ctx context.Context, c *api.Client) error { return c.RegistryAuths.Delete(ctx, "a") },
	"create endpoint": func(ctx context.Context, c *api.Client) error {
		_, err := c.Endpoints.Create(ctx, api.Endpoint{Name: "n", TemplateID: new("t"), Type: "QUEUE"})
		return err
	},
	"update endpoint": func(ctx context.Context, c *api.Client) error {
		_, err := c.Endpoints.Update(ctx, api.Endpoint{ID: "a", Name: "n", TemplateID: new("t"), Type: "QUEUE"}, api.Endpoint{Name: "m", TemplateID: new("t"), Type: "QUEUE"})
		return err
	},
	"create pod": func(ctx context.Context, c *api.Client) error {
		_, err := c.Pods.Create(ctx, api.Pod{Name: "n", GPU: &api.PodGPU{ID: "g"}})
		return err
	},
	"update pod": func(ctx context.Context, c *api.Client) error {
		_, err := c.Pods.Update(ctx, api.Pod{ID: "a", Name: "n"}, api.Pod{Name: "m"})
		return err
	},
	"stop pod":   func(ctx context.Context, c *api.Client) error { return c.Pods.Act(ctx, "a", api.StopPod) },
	"delete pod": func(ctx context.Context, c *api.Client) error { return c.Pods.Delete(ctx, "a") },
	"set SSH keys": func(ctx context.Context, c *api.Client) error {
		_, err := c.SSHKeys.Set(ctx, nil)
		return err
	},
	"delete endpoint": func(ctx context.Context, c *api.Client) error { return c.Endpoints.Delete(ctx, "a") },
}

// writeCounter records writes. It answers lists with list and other requests with rest.
type writeCounter struct {
	list, rest http.HandlerFunc

	mu     sync.Mutex
	writes []string
}

func (s *writeCounter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		s.mu.Lock()
		s.writes = append(s.writes, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
	}
	if strings.Count(r.URL.Path, "/") == 2 && r.Method == http.MethodGet {
		s.list(w, r)
		return
	}
	s.rest(w, r)
}

func (s *writeCounter) arrived() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

func listNothing(w http.ResponseWriter, r *http.Request) { answer(200, emptyList[r.URL.Path])(w, r) }

// The client sends no write to a server from which it can't read a list, whatever the server
// answers.
func TestNoWriteWithoutAList(t *testing.T) {
	page := answer(200, "<html><title>Hello</title></html>", "Content-Type", "text/html")
	object := answer(200, `{"id":"a","name":"n"}`)
	for name, s := range map[string]struct {
		list, rest http.HandlerFunc
		written    bool
	}{
		"the API":                            {listNothing, object, true},
		"a web page for everything":          {page, page, false},
		"a web page for lists":               {page, object, false},
		"another API's object":               {answer(200, `{}`), object, false},
		"nothing":                            {answer(200, ``), object, false},
		"404 as a web page":                  {answer(404, `<html>`), object, false},
		"404 in the form of API v2 and v1":   {answer(404, `{"title":"Not Found","status":404,"message":"none"}`), object, false},
		"403 as a web page":                  {answer(403, `<html>`), object, false},
		"a redirection to another host":      {answer(302, ``, "Location", "http://elsewhere/"), object, false},
		"502 for lists, and success for all": {answer(502, ``), object, false},
	} {
		for _, version := range versions {
			for call, write := range writes {
				runInBubble(t, strings.Join([]string{name, string(version), call}, "/"), func(t *testing.T) {
					d := &writeCounter{list: s.list, rest: s.rest}
					err := write(t.Context(), pipe(t, d, api.Settings{Version: version, SharedReads: true}))
					if got := d.arrived(); len(got) > 0 != s.written || err == nil && !s.written {
						t.Errorf("%v arrived, %v", got, err)
					}
				})
			}
		}
	}
}

// A 403 in the API's form shows that the server is the API, so writes are sent. A 403 in another
// form doesn't.
func TestRefusalThatProvesTheAPI(t *testing.T) {
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
			d := &writeCounter{list: answer(403, c.body), rest: answer(201, `{"id":"a","name":"n"}`)}
			client := pipe(t, d, api.Settings{Version: c.version, SharedReads: true})
			if err := client.Verify(t.Context()); (err == nil) != c.proves {
				t.Errorf("the proof: %v", err)
			}
			err := writes["create template"](t.Context(), client)
			if got := d.arrived(); len(got) > 0 != c.proves || (err == nil) != c.proves {
				t.Errorf("%v arrived, %v", got, err)
			}
		})
	}
}

// An object that this run has read is managed. It is neither the result of a lost create nor an
// existing match, even if the list lacked it before the create.
func TestObjectThatWasReadIsNotTakenOver(t *testing.T) {
	equal := func() map[string]any {
		return map[string]any{"name": "v", "size": 10, "dataCenter": "EU-RO-1", "type": "STANDARD"}
	}
	for _, reads := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &shop{hidden: 2, faults: []func(http.ResponseWriter, *http.Request, func() string){loseAnswer(false, hangUp)}}
			id := s.add(equal())
			c := s.open(t)
			if reads {
				must.Do(c.NetworkVolumes.Get(t.Context(), id))(t)
			} else if _, err := c.NetworkVolumes.List(t.Context()); err != nil {
				t.Fatal(err)
			}
			got, err := c.NetworkVolumes.Create(t.Context(), volume("v"))
			unsettled, ok := errors.AsType[*api.UnresolvedCreateError](err)
			switch {
			case s.lists < 3:
				t.Errorf("%d lists: the object never showed", s.lists)
			case reads && (!ok || len(unsettled.Candidates) > 0 || got.ID != ""):
				t.Errorf("read before: got %+v, %v", got, err)
			case !reads && (err != nil || got.ID != id): // without the read, the result differs
				t.Errorf("not read before: got %+v, %v", got, err)
			}
		})
		synctest.Test(t, func(t *testing.T) {
			s := &shop{}
			id := s.add(equal())
			c := s.open(t)
			if reads {
				must.Do(c.NetworkVolumes.Get(t.Context(), id))(t)
			}
			if matches := c.NetworkVolumes.ExistingMatches(t.Context(), volume("v")); (len(matches) == 0) != reads {
				t.Errorf("read before: %t, matches: %+v", reads, matches)
			}
			if matches := c.NetworkVolumes.ExistingMatches(t.Context(), volume("v")); len(matches) > 0 {
				t.Errorf("another plan of the run matches again: %+v", matches)
			}
		})
	}
}

// An object that this run deleted isn't the result of a lost create, even if a delayed list shows
// it again.
func TestDeletedObjectIsNotTakenOver(t *testing.T) {
	const (
		oldVolume   = `{"id":"old","name":"v","size":10,"dataCenter":"EU-RO-1","type":"STANDARD"}`
		oldTemplate = `{"id":"old","name":"t","image":"i","category":"NVIDIA","args":"","disk":0,"env":{},"ports":[],"registry":null,"public":false,"serverless":false}`
	)
	for _, deletes := range []bool{false, true} {
		// lagging answers lists before the POST without the object, and later lists with it. The
		// first POST creates nothing, and its answer is lost.
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
			unsettled, ok := errors.AsType[*api.UnresolvedCreateError](err)
			switch {
			case deletes && (!ok || len(unsettled.Candidates) > 0 || *posts != 1):
				t.Errorf("volume, deleted before: got %+v, %v after %d POSTs", got, err, *posts)
			case !deletes && (err != nil || got.ID != "old"): // without the deletion, the result differs
				t.Errorf("volume, not deleted before: got %+v, %v", got, err)
			}
		})
		synctest.Test(t, func(t *testing.T) {
			handler, posts := lagging("/v2/templates", "templates", oldTemplate, strings.Replace(oldTemplate, "old", "new", 1))
			c := pipe(t, handler, api.Settings{SharedReads: true})
			if deletes {
				must.Succeed(t, c.Templates.Delete(t.Context(), "old"))
			}
			got, err := c.Templates.Create(t.Context(), api.Template{Name: "t", Image: "i", Category: "NVIDIA"})
			want := map[bool]string{true: "new", false: "old"}[deletes]
			if err != nil || got.ID != want || *posts != map[bool]int{true: 2, false: 1}[deletes] {
				t.Errorf("template, deleted before: %t: got %+v, %v after %d POSTs", deletes, got, err, *posts)
			}
		})
	}
}

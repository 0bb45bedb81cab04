package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// pager serves lists, newest first, and objects. A cursor is the previous page's last id, with a + after an empty page.
type pager struct {
	path, member string
	pageSize     int
	emptyPages   bool                      // an empty page precedes each page with objects
	beforePage   func(s *pager, pages int) // runs before each page except the first

	mu      sync.Mutex
	objects []pagedObject // the newest last
	lastID  int           // number in the newest id
	pages   int           // number of pages served
}

type pagedObject struct {
	n    int
	text json.RawMessage
}

func (o pagedObject) id() string { return fmt.Sprintf("id%d", o.n) }

// add creates an object from JSON without an id.
func (s *pager) add(object string) {
	s.lastID++
	s.objects = append(s.objects, pagedObject{s.lastID, json.RawMessage(fmt.Sprintf(`{"id":"id%d",`, s.lastID) + strings.TrimPrefix(object, "{"))})
}

// index returns the index of the first object whose number is n or larger.
func (s *pager) index(n int) (i int, found bool) {
	return slices.BinarySearchFunc(s.objects, n, func(o pagedObject, n int) int { return o.n - n })
}

func (s *pager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, number := strings.Trim(strings.TrimPrefix(r.URL.Path, s.path), "/"), 0
	switch fmt.Sscanf(id, "id%d", &number); {
	case id != "":
		if i, found := s.index(number); found {
			answer(200, string(s.objects[i].text))(w, r)
		} else {
			answer(404, `{"title":"Not Found","status":404}`)(w, r)
		}
	case r.Method == http.MethodPost: // creates the object and loses the answer
		s.add(`{"name":"new"` + pagedKinds[s.path].object)
		hangUp(w, r)
	default:
		s.page(w, r, r.URL.Query().Get("cursor"))
	}
}

func (s *pager) page(w http.ResponseWriter, r *http.Request, cursor string) {
	s.pages++
	end := len(s.objects)
	if cursor != "" {
		if s.beforePage != nil {
			s.beforePage(s, s.pages)
		}
		n := 0
		fmt.Sscanf(strings.TrimPrefix(cursor, "+"), "%d", &n)
		end, _ = s.index(n)
	}
	begin := max(0, end-s.pageSize)
	if s.emptyPages && !strings.HasPrefix(cursor, "+") {
		begin = end
	}
	page := make([]json.RawMessage, 0, end-begin)
	for _, o := range slices.Backward(s.objects[begin:end]) {
		page = append(page, o.text)
	}
	pagination := map[string]any{"nextCursor": nil, "hasNextPage": begin > 0}
	switch {
	case begin == 0:
	case begin < end:
		pagination["nextCursor"] = fmt.Sprint(s.objects[begin].n)
	case begin < len(s.objects):
		pagination["nextCursor"] = fmt.Sprintf("+%d", s.objects[begin].n)
	default:
		pagination["nextCursor"] = fmt.Sprintf("+%d", s.lastID+1)
	}
	text, _ := json.Marshal(map[string]any{s.member: page, "pagination": pagination})
	answer(200, string(text))(w, r)
}

func (s *pager) newClient(t *testing.T) *api.Client {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/templates", answer(200, `{"templates":[]}`))
	mux.HandleFunc("GET /v2/network-volumes", answer(200, `{"networkVolumes":[]}`))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, s.path) {
			s.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
	return pipe(t, handler, api.Settings{SharedReads: true})
}

// pagedKind has the operations of a kind with pages. It hides the type parameter of api.Collection.
type pagedKind struct {
	member string
	object string // an object's members after id and name
	list   func(context.Context, *api.Client) ([]api.NamedObject, error)
	get    func(ctx context.Context, c *api.Client, id string) error
	create func(context.Context, *api.Client) (id string, err error) // creates an object "new"
}

func newPagedKind[T any](member string, collection func(*api.Client) *api.Collection[T], created T, id func(T) string, object string) pagedKind {
	return pagedKind{
		member: member, object: object,
		list: func(ctx context.Context, c *api.Client) ([]api.NamedObject, error) {
			return collection(c).ListNames(ctx)
		},
		get: func(ctx context.Context, c *api.Client, id string) error { return must.Err(collection(c).Get(ctx, id)) },
		create: func(ctx context.Context, c *api.Client) (string, error) {
			got, err := collection(c).Create(ctx, created)
			return id(got), err
		},
	}
}

var pagedKinds = map[string]pagedKind{
	"/v2/templates": newPagedKind("templates", func(c *api.Client) *api.Collection[api.Template] { return c.Templates },
		api.Template{Name: "new", Image: "i"}, func(o api.Template) string { return o.ID },
		`,"image":"i","args":"","disk":0,"env":{},"ports":[],"public":false,"serverless":false,"category":"NVIDIA"}`),
	"/v2/network-volumes": newPagedKind("networkVolumes", func(c *api.Client) *api.Collection[api.NetworkVolume] { return c.NetworkVolumes },
		volume("new"), func(o api.NetworkVolume) string { return o.ID },
		`,"size":10,"dataCenter":"EU-RO-1","type":"STANDARD"}`),
	"/v2/registries": newPagedKind("registries", func(c *api.Client) *api.Collection[api.RegistryAuth] { return c.RegistryAuths },
		api.RegistryAuth{}, func(o api.RegistryAuth) string { return o.ID }, `}`),
	"/v2/serverless": newPagedKind("endpoints", func(c *api.Client) *api.Collection[api.Endpoint] { return c.Endpoints },
		api.Endpoint{Name: "new", Type: "QUEUE", TemplateID: new("t")}, func(o api.Endpoint) string { return o.ID },
		`,"type":"QUEUE","workers":{"min":0,"max":0},"scaling":{"type":""},"dataCenterIds":[],"networkVolumes":[],"timeout":0,"flashboot":null}`),
	"/v2/pods": newPagedKind("pods", func(c *api.Client) *api.Collection[api.Pod] { return c.Pods.Collection },
		api.Pod{Name: "new", GPU: &api.PodGPU{ID: "g"}}, func(o api.Pod) string { return o.ID },
		`,"gpu":{"id":"g"},"image":"i","args":"","disk":0,"env":{},"ports":[],"mounts":{},"cloud":"SECURE","locked":false,"status":"RUNNING"}`),
	"/v2/clusters": newPagedKind("clusters", func(c *api.Client) *api.Collection[api.Cluster] { return c.Clusters.Collection },
		api.Cluster{Name: "new", Type: "SLURM"}, func(o api.Cluster) string { return o.ID },
		`,"type":"SLURM","compute":{"gpuTypeId":"","gpuCountPerPod":0,"podCount":0},"createdAt":"x"}`),
	"/v2/registries/delegations": newPagedKind("delegations", func(c *api.Client) *api.Collection[api.Delegation] { return c.Delegations },
		api.Delegation{Name: new("new"), Resource: "arn:aws:ecr:us-east-2:1:repository/app"}, func(o api.Delegation) string { return o.ID },
		`,"awsUser":"1","awsRegion":"us-east-2","repository":"app","tag":"latest","resource":"arn:aws:ecr:us-east-2:1:repository/app"}`),
}

// eachPaged runs a check with 1,050 objects of each kind, in pages of 50, 1,000 and, for the first kind, 1.
func eachPaged(t *testing.T, paths []string, check func(t *testing.T, path string, s *pager)) {
	for i, path := range paths {
		kind, pageSizes := pagedKinds[path], []int{50, 1000}
		if i == 0 { // 1,050 requests per list
			pageSizes = append(pageSizes, 1)
		}
		for _, pageSize := range pageSizes {
			t.Run(fmt.Sprint(path, pageSize), func(t *testing.T) {
				t.Parallel()
				s := &pager{path: path, member: kind.member, pageSize: pageSize, emptyPages: pageSize == 50}
				for n := range 1050 {
					s.add(fmt.Sprintf(`{"name":"n%d"%s`, n+1, kind.object))
				}
				check(t, path, s)
			})
		}
	}
}

func TestEmptyNameFindsNothing(t *testing.T) {
	must.Equal(t, api.WithName([]api.NamedObject{{ID: "nameless"}, {ID: "id", Name: "name"}}, ""), nil)
}

// Lookups by name, reads, and creates whose answer was lost use the objects of all pages.
func TestAllPages(t *testing.T) {
	eachPaged(t, slices.Sorted(maps.Keys(pagedKinds)), func(t *testing.T, path string, s *pager) {
		synctest.Test(t, func(t *testing.T) {
			kind, c := pagedKinds[path], s.newClient(t)
			for _, id := range []string{"id1", "id500", "id1050"} {
				must.Succeed(t, kind.get(t.Context(), c, id))
			}
			pages := s.pages
			objects, err := kind.list(t.Context(), c)
			ids := api.WithName(objects, "n1")
			must.Hold(t, err == nil && len(objects) == 1050 && slices.Equal(ids, []string{"id1"}) && s.pages == pages,
				len(objects), "objects, n1 is", ids, "after", pages, "and", s.pages, "pages", err)
			if path == "/v2/registries" { // a lost auth is created again: TestLostAuthCreate
				return
			}
			must.Equal(t, must.Do(kind.create(t.Context(), c))(t), "id1051", "the lost create")
		})
	})
}

// If objects are created and deleted between pages, each other object is returned once.
func TestChangesBetweenPages(t *testing.T) {
	eachPaged(t, []string{"/v2/network-volumes"}, func(t *testing.T, path string, s *pager) {
		deleted := map[string]bool{}
		s.beforePage = func(s *pager, pages int) {
			if pages%max(1, 300/s.pageSize) != 0 && s.pageSize < 1000 {
				return
			}
			s.add(`{"name":"later"` + pagedKinds[path].object)
			for _, i := range []int{0, len(s.objects) / 2} { // the oldest, which is on a later page, and one on any page
				deleted[s.objects[i].id()] = true
				s.objects = slices.Delete(s.objects, i, i+1)
			}
		}
		synctest.Test(t, func(t *testing.T) {
			objects, err := pagedKinds[path].list(t.Context(), s.newClient(t))
			times := map[string]int{}
			for _, o := range objects {
				times[o.ID]++
			}
			for n := range 1050 {
				id := fmt.Sprintf("id%d", n+1)
				got := times[id]
				must.Hold(t, (got == 1 || deleted[id]) && got <= 1, id, "is returned", got, "times")
			}
			must.Hold(t, err == nil && len(deleted) >= 2, "the list returned", err, "while", len(deleted), "objects were deleted")
		})
	})
}

func TestPagesOfOtherLists(t *testing.T) {
	for name, c := range map[string]struct {
		member string
		count  func(context.Context, *api.Client) (int, error)
	}{
		"releases": {"releases", func(ctx context.Context, c *api.Client) (int, error) {
			got, err := c.EndpointReleases(ctx, "e")
			return len(got.Releases), err
		}},
		"workers": {"workers", func(ctx context.Context, c *api.Client) (int, error) {
			got, err := c.EndpointWorkers(ctx, "e")
			return len(got.Workers), err
		}},
		"pods of a cluster": {"pods", func(ctx context.Context, c *api.Client) (int, error) {
			got, err := c.Clusters.Pods(ctx, "c")
			return len(got), err
		}},
		"GPU types": {"gpus", func(ctx context.Context, c *api.Client) (int, error) {
			got, err := c.GPUTypes.Find(ctx, nil)
			return len(got), err
		}},
		"bill": {"records", func(ctx context.Context, c *api.Client) (int, error) {
			got, err := c.Bill(ctx, "/pods", map[string][]string{"lastN": {"3"}})
			return len(got.Records), err
		}},
	} {
		client, d := deploy(t, api.V2,
			answer(200, `{"`+c.member+`":[{"id":"a","totalAmount":1},{"id":"b","totalAmount":1}],"pagination":{"nextCursor":"x y&","hasNextPage":true}}`),
			answer(200, `{"`+c.member+`":[{"id":"c","totalAmount":1}],"pagination":{"nextCursor":null,"hasNextPage":false}}`))
		n, err := c.count(t.Context(), client)
		if seen := d.requests(); err != nil || n != 3 || len(seen) != 2 || !strings.Contains(seen[1].query, "cursor=x+y%26") ||
			name == "bill" && !strings.Contains(seen[1].query, "lastN=3") {
			t.Errorf("%s: got %d elements of 3 and the error %v after the requests %v", name, n, err, seen)
		}
	}
}

// An invalid or endless sequence of pages is an error that describes it.
func TestBrokenPages(t *testing.T) {
	page := func(pagination string) http.HandlerFunc {
		return answer(200, `{"networkVolumes":[{"id":"a"}],"pagination":`+pagination+`}`, "X-Request-Id", "r-1")
	}
	next := func(cursor string) http.HandlerFunc {
		return page(`{"nextCursor":"` + cursor + `","hasNextPage":true}`)
	}
	last := page(`{"nextCursor":null,"hasNextPage":false}`)
	refused := answer(422, `{"title":"Unprocessable Entity","status":422,"detail":"the cursor is too old"}`, "X-Request-Id", "r-1")
	for name, c := range map[string]struct {
		answers []http.HandlerFunc
		says    string // "" for success
		sent    int
	}{
		"one page":                  {[]http.HandlerFunc{last}, "", 1},
		"a cursor after the end":    {[]http.HandlerFunc{page(`{"nextCursor":"x","hasNextPage":false}`)}, "", 1},
		"null":                      {[]http.HandlerFunc{page(`null`)}, "", 1},
		"a repeated cursor":         {[]http.HandlerFunc{next("x"), next("x")}, "repeats the cursor of an earlier page", 2},
		"a loop of cursors":         {[]http.HandlerFunc{next("x"), next("y"), next("z"), next("y")}, "repeats the cursor of an earlier page", 4},
		"no cursor":                 {[]http.HandlerFunc{page(`{"hasNextPage":true}`)}, "nextCursor is missing", 1},
		"null as cursor":            {[]http.HandlerFunc{page(`{"nextCursor":null,"hasNextPage":true}`)}, "nextCursor is missing", 1},
		"a number as cursor":        {[]http.HandlerFunc{page(`{"nextCursor":7,"hasNextPage":true}`)}, "$.pagination.nextCursor is a number, not a string", 1},
		"text":                      {[]http.HandlerFunc{page(`"x"`)}, "$.pagination is a string, not an object", 1},
		"refused once":              {[]http.HandlerFunc{next("x"), refused, next("y"), last}, "", 4},
		"refused twice":             {[]http.HandlerFunc{next("x"), refused, next("y"), refused}, "although the list was restarted", 4},
		"refused at the first page": {[]http.HandlerFunc{refused}, "the cursor is too old", 1},
	} {
		client, d := deploy(t, api.V2, c.answers...)
		_, err := client.NetworkVolumes.List(t.Context())
		must.Hold(t, (err == nil) == (c.says == "") && len(d.requests()) == c.sent, name, "ended with", err, "after", len(d.requests()), "requests")
		must.Hold(t, err == nil || strings.Contains(err.Error(), c.says) && strings.Contains(err.Error(), "/v2/network-volumes: ") && strings.Contains(err.Error(), "r-1"),
			name, "lacks", c.says, "or the address or the request id in the error", err)
	}
	synctest.Test(t, func(t *testing.T) { // an endless sequence of empty pages
		n := 0
		client, d := deployPiped(t, api.V2, func(w http.ResponseWriter, r *http.Request) {
			n++
			answer(200, fmt.Sprintf(`{"networkVolumes":[],"pagination":{"nextCursor":"%d","hasNextPage":true}}`, n))(w, r)
		})
		_, err := client.NetworkVolumes.List(t.Context())
		must.Hold(t, err != nil && strings.Contains(err.Error(), "1000 pages in a row are empty") && len(d.requests()) == 1001,
			"the list ended with", err, "after", len(d.requests()), "pages")
	})
	client, _ := deploy(t, api.V2, next("x"), answer(403, `{"title":"Forbidden","status":403}`))
	_, err := client.NetworkVolumes.List(t.Context())
	must.Hold(t, status(err) == 403 && !errors.Is(err, context.Canceled), "a later page is forbidden, and the list ended with", err)
}

package store_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

func open(t *testing.T, dir string) (*store.Store, func()) {
	t.Helper()
	db := must.Do(sqldb.Open(t.Context(), sqldb.Config{Dir: dir}))(t)
	closeStore := sync.OnceFunc(func() { must.Equal(t, db.Close(), nil) })
	t.Cleanup(closeStore)
	return must.Do(store.Open(t.Context(), db, new(clock.Clock)))(t), closeStore
}

func template(name string) store.Template {
	return store.Template{
		Head:      store.Head{Name: name},
		Container: store.Container{Image: "builtin/echo", Disk: 50, Env: map[string]string{"A": "1"}}, Serverless: true,
	}
}

func endpoint() store.Endpoint {
	return store.Endpoint{
		Head: store.Head{Name: "e"}, Type: store.Queue, Container: store.Container{Image: "builtin/echo", Disk: 50},
		WorkersMax: 3, Scaling: store.Scaling{Type: store.QueueDelay, Value: 4},
	}
}

func createLinked(ctx context.Context, s *store.Store, templateID string) (store.Endpoint, error) {
	return store.Build(ctx, s, func(tx *store.Tx) (store.Endpoint, error) {
		e := endpoint()
		t, err := tx.Template(templateID)
		e.Link(t)
		return e, err
	})
}

func expectRefusal(t *testing.T, err error, text string) {
	t.Helper()
	var refusal store.Refusal
	must.Hold(t, errors.As(err, &refusal) && strings.Contains(err.Error(), text), err, "want a refusal that says", text)
}

func expectNotFound(t *testing.T, err error) {
	t.Helper()
	must.ErrorIs(t, err, store.ErrNotFound, "want it not found")
}

func TestTemplates(t *testing.T) {
	s, _ := open(t, "")
	ctx := t.Context()
	a := must.Do(store.Create(ctx, s, template("a")))(t)
	must.Hold(t, regexp.MustCompile(`^[a-z0-9]{12}$`).MatchString(a.ID) && time.Since(a.Created) <= time.Minute, "made", a.Head)
	expectRefusal(t, must.Err(store.Create(ctx, s, template("a"))), `the name "a" is taken`)
	b := must.Do(store.Create(ctx, s, template("b")))(t)
	expectRefusal(t, must.Err(s.UpdateTemplate(ctx, b.ID, func(b *store.Template) error { b.Name = "a"; return nil })), `the name "a" is taken`)
	renamed := must.Do(s.UpdateTemplate(ctx, b.ID, func(b *store.Template) error { b.Name = "c"; return nil }))(t)
	must.Hold(t, renamed.Name == "c" && renamed.ID == b.ID, "renamed", renamed.Head)
	must.Do(store.Create(ctx, s, template("b")))(t) // its name is free again
	all := must.Do(store.List[store.Template](ctx, s))(t)
	must.Hold(t, len(all) == 3 && all[0].Name == "a" && all[1].Name == "c" && all[2].Name == "b", "listed", all)

	stop := errors.New("stop")
	must.ErrorIs(t, must.Err(s.UpdateTemplate(ctx, a.ID, func(a *store.Template) error { a.Image = "x"; return stop })), stop, "the error of a change became")
	got := must.Do(store.Get[store.Template](ctx, s, a.ID))(t)
	must.Hold(t, got.Image == "builtin/echo" && got.Env["A"] == "1", "read", got)
	withUnknownAuth := template("d")
	withUnknownAuth.Registry = "nothing"
	expectRefusal(t, must.Err(store.Create(ctx, s, withUnknownAuth)), `registry auth "nothing" does not exist`)

	must.Succeed(t, store.Delete[store.Template](ctx, s, a.ID))
	expectNotFound(t, store.Delete[store.Template](ctx, s, a.ID))
	expectNotFound(t, must.Err(store.Get[store.Template](ctx, s, a.ID)))
	expectNotFound(t, must.Err(s.UpdateTemplate(ctx, a.ID, func(*store.Template) error { return nil })))
}

func TestOnPostgreSQL(t *testing.T) {
	proxy, proxyURL := pgtest.NewProxy(t, pgtest.Start(t))
	db := must.Do(sqldb.Open(t.Context(), sqldb.Config{URL: proxyURL}))(t)
	defer db.Close()
	s := must.Do(store.Open(t.Context(), db, new(clock.Clock)))(t)
	expectRefusal(t, must.Err(store.Create(t.Context(), s, template(fmt.Sprint(rand.Perm(2000))))), "choose a shorter one")

	// Listeners hear of a commit whose reply was lost: otherwise a new pod would wait for its next change.
	var changed []string
	store.OnChange[store.NetworkVolume](s, func(id string) { changed = append(changed, id) })
	proxy.LoseCommit()
	must.ErrorIs(t, must.Err(store.Create(t.Context(), s, store.NetworkVolume{Size: 10})), sqldb.ErrUnavailable, "the create whose reply was lost")
	stored := must.Do(store.List[store.NetworkVolume](t.Context(), s))(t)
	must.Hold(t, len(stored) == 1 && len(changed) == 1 && changed[0] == stored[0].ID, "stored are", stored, "and the listeners heard of", changed)
}

// One of several concurrent creates with the same name succeeds.
func TestOneOfManyWins(t *testing.T) {
	s, _ := open(t, t.TempDir())
	var (
		wait                     sync.WaitGroup
		mu                       sync.Mutex
		created, rejected, auths int
	)
	for range 20 {
		wait.Go(func() {
			_, err := store.Create(t.Context(), s, template("same"))
			_, authErr := s.CreateRegistryAuth(t.Context(), "same", store.Credentials{Username: "u", Password: "p"})
			mu.Lock()
			defer mu.Unlock()
			var refusal store.Refusal
			if err == nil {
				created++
			} else if errors.As(err, &refusal) {
				rejected++
			}
			if authErr == nil {
				auths++
			}
		})
	}
	wait.Wait()
	must.Hold(t, created == 1 && rejected == 19 && auths == 1, created, "templates were created and", rejected, "rejected, want 1 and 19;", auths, "auths were created, want 1")
}

// The clauses V-03 to V-10 of the conformance suite have the rules of one update.
func TestVolumesGrowOnly(t *testing.T) {
	s, _ := open(t, "")
	ctx := t.Context()
	v := must.Do(store.Create(ctx, s, store.NetworkVolume{Head: store.Head{Name: "v"}, Size: 20, DataCenter: "EU-RO-1"}))(t)
	sameName := must.Do(store.Create(ctx, s, store.NetworkVolume{Head: store.Head{Name: "v"}, Size: 20}))(t) // not unique
	// Concurrent updates: each must fail once a larger one has succeeded.
	var wait sync.WaitGroup
	for size := range int64(50) {
		wait.Go(func() { _, _ = s.UpdateNetworkVolume(ctx, v.ID, store.VolumeChange{Size: new(size + 1)}) })
	}
	wait.Wait()
	must.Equal(t, must.Do(store.Get[store.NetworkVolume](ctx, s, v.ID))(t).Size, 50, "the size after concurrent updates")

	e := endpoint()
	e.NetworkVolumes = []string{v.ID, sameName.ID}
	e = must.Do(store.Create(ctx, s, e))(t)
	must.Succeed(t, store.Delete[store.NetworkVolume](ctx, s, v.ID))
	must.Equal(t, must.Do(s.Endpoint(ctx, e.ID))(t).NetworkVolumes, []string{sameName.ID}, "the volumes of the endpoint after the deletion")
	expectNotFound(t, store.Delete[store.NetworkVolume](ctx, s, v.ID))
}

func TestRegistryAuths(t *testing.T) {
	s, _ := open(t, "")
	ctx := t.Context()
	const secret = "hunter2-the-secret"
	r := must.Do(s.CreateRegistryAuth(ctx, "r", store.Credentials{Username: "user-of-it", Password: secret}))(t)
	all := must.Do(store.List[store.RegistryAuth](ctx, s))(t)
	got := must.Do(store.Get[store.RegistryAuth](ctx, s, r.ID))(t)
	c := must.Do(s.Credentials(ctx, r.ID))(t)
	must.Hold(t, c.Password == secret && c.Username == "user-of-it", "the credentials were not kept")
	for _, text := range []string{fmt.Sprintf("%+v %#v", all, got), fmt.Sprintf("%v %+v %#v %s", c, c, c, c.LogValue())} {
		must.Hold(t, !strings.Contains(text, secret) && !strings.Contains(text, "user-of-it"), "a read shows the credentials", text)
	}

	tmpl := template("t")
	tmpl.Registry = r.ID
	tmpl = must.Do(store.Create(ctx, s, tmpl))(t)
	follower := must.Do(createLinked(ctx, s, tmpl.ID))(t)
	withOwnAuth := endpoint()
	withOwnAuth.Registry = r.ID
	withOwnAuth = must.Do(store.Create(ctx, s, withOwnAuth))(t)
	must.Succeed(t, store.Delete[store.RegistryAuth](ctx, s, r.ID))
	must.Equal(t, must.Do(store.Get[store.Template](ctx, s, tmpl.ID))(t).Registry, "", "the registry auth of the template")
	for _, id := range []string{follower.ID, withOwnAuth.ID} {
		got := must.Do(s.Endpoint(ctx, id))(t)
		must.Hold(t, got.Registry == "" && got.Version == 1, "the endpoint has", got.Container, "in version", got.Version)
	}
	expectNotFound(t, store.Delete[store.RegistryAuth](ctx, s, r.ID))
	_, err := s.Credentials(ctx, r.ID)
	expectNotFound(t, err)
}

func TestLinkedEndpointsFollow(t *testing.T) {
	s, _ := open(t, "")
	ctx := t.Context()
	var changedIDs []string
	store.OnChange[store.Endpoint](s, func(id string) {
		_, err := s.Endpoint(ctx, id)
		must.Hold(t, err == nil || errors.Is(err, store.ErrNotFound), "reading a changed endpoint failed:", err)
		changedIDs = append(changedIDs, id)
	})
	tmpl := must.Do(store.Create(ctx, s, template("t")))(t)
	follower := must.Do(createLinked(ctx, s, tmpl.ID))(t)
	copyOfTemplate := must.Do(store.Build(ctx, s, func(tx *store.Tx) (store.Endpoint, error) {
		e := endpoint()
		from, err := tx.Template(tmpl.ID)
		e.Copy(from)
		return e, err
	}))(t)
	must.Hold(t, follower.TemplateID == tmpl.ID && copyOfTemplate.TemplateID == "" && copyOfTemplate.Env["A"] == "1", "made", follower, copyOfTemplate)
	boundTemplates := must.Do(s.BoundTemplates(ctx))(t)
	must.Hold(t, boundTemplates[tmpl.ID] && len(boundTemplates) == 1, "bound are", boundTemplates)

	changedIDs = nil
	must.Do(s.UpdateTemplate(ctx, tmpl.ID, func(t *store.Template) error { t.Env["A"], t.Readme = "2", "x"; return nil }))(t)
	must.Do(s.UpdateTemplate(ctx, tmpl.ID, func(t *store.Template) error { t.Readme = "y"; return nil }))(t)
	got := must.Do(s.Endpoint(ctx, follower.ID))(t)
	// the readme isn't part of the worker spec
	must.Hold(t, got.Env["A"] == "2" && got.Version == 1, "the follower has", got.Container, "in version", got.Version)
	got = must.Do(s.Endpoint(ctx, copyOfTemplate.ID))(t)
	must.Hold(t, got.Env["A"] == "1" && got.Version == 0, "the copy has", got.Container, "in version", got.Version)
	must.Hold(t, slices.Contains(changedIDs, follower.ID) && !slices.Contains(changedIDs, copyOfTemplate.ID), "notified of", changedIDs)

	_, err := s.UpdateTemplate(ctx, tmpl.ID, func(t *store.Template) error { t.Serverless = false; return nil })
	expectRefusal(t, err, "must stay a serverless template")
	expectRefusal(t, store.Delete[store.Template](ctx, s, tmpl.ID), "is linked to it")
	changedIDs = nil
	must.Succeed(t, store.Delete[store.Endpoint](ctx, s, follower.ID))
	must.Equal(t, changedIDs, []string{follower.ID}, "the changed objects")
	expectNotFound(t, store.Delete[store.Endpoint](ctx, s, follower.ID))
	must.Equal(t, store.Delete[store.Template](ctx, s, tmpl.ID), nil) // a copy isn't a link
}

// Operations of a kind reject the ids of other kinds.
func TestIDsOfAnotherKind(t *testing.T) {
	s, _ := open(t, "")
	ctx := t.Context()
	v := must.Do(store.Create(ctx, s, store.NetworkVolume{Head: store.Head{Name: "v"}, Size: 20}))(t)
	e := endpoint()
	e.NetworkVolumes = []string{v.ID}
	must.Do(store.Create(ctx, s, e))(t)
	expectNotFound(t, store.Delete[store.Template](ctx, s, v.ID))
	expectNotFound(t, store.Delete[store.RegistryAuth](ctx, s, v.ID))
	expectNotFound(t, store.Delete[store.Endpoint](ctx, s, v.ID))
	expectNotFound(t, store.Delete[store.Pod](ctx, s, "official-pod"))
	_, err := s.Endpoint(ctx, v.ID)
	expectNotFound(t, err)
	all := must.Do(s.Endpoints(ctx))(t)
	must.Hold(t, len(all) == 1 && len(all[0].NetworkVolumes) == 1, "the endpoint is", all)
}

func TestEndpointRules(t *testing.T) {
	s, _ := open(t, "")
	ctx := t.Context()
	podTemplate := template("for pods")
	podTemplate.Serverless = false
	podTemplate = must.Do(store.Create(ctx, s, podTemplate))(t)
	gpu := func(g store.GPU) func(*store.Endpoint) { return func(e *store.Endpoint) { e.GPU = &g } }
	for _, c := range []struct {
		refusal string // "": accepted
		change  func(*store.Endpoint)
	}{
		{"", func(*store.Endpoint) {}},
		{"contradict", func(e *store.Endpoint) { e.WorkersMin = 4 }},
		{"", func(e *store.Endpoint) { e.WorkersMin = 3 }},
		{"scales on REQUEST_COUNT alone", func(e *store.Endpoint) { e.Type = store.LoadBalancer }},
		{"", func(e *store.Endpoint) { e.Type, e.Scaling.Type = store.LoadBalancer, store.RequestCount }},
		{"not both", func(e *store.Endpoint) { e.GPU, e.CPU = &store.GPU{}, []store.CPU{{"cpu3c", 2}} }},
		{"", gpu(store.GPU{Pools: []string{"ADA_24"}, ExcludedTypes: []string{"NVIDIA L4"}})},
		{"none of the pools ADA_24", gpu(store.GPU{Pools: []string{"ADA_24"}, ExcludedTypes: []string{"NVIDIA L40"}})},
		{"leave no GPU type", gpu(store.GPU{Pools: []string{"ADA_24"}, ExcludedTypes: []string{"NVIDIA L4", "NVIDIA GeForce RTX 4090"}})},
		{"", gpu(store.GPU{Pools: []string{"ADA_24", "NOT_KNOWN"}, ExcludedTypes: []string{"who knows"}})},
		{"", gpu(store.GPU{TypeIDs: []string{"not known"}})},
		{"exclude each other", gpu(store.GPU{AllowedCUDAVersions: []string{"12.8"}, MinCUDAVersion: "12.1"})},
		{"", gpu(store.GPU{MinCUDAVersion: "12.1"})},
		{"registry auth \"none\" does not exist", func(e *store.Endpoint) { e.Registry = "none" }},
		{"network volume \"none\" does not exist", func(e *store.Endpoint) { e.NetworkVolumes = []string{"none"} }},
		{"is not a serverless template", func(e *store.Endpoint) { e.Link(podTemplate) }},
	} {
		e := endpoint()
		c.change(&e)
		created, err := store.Create(ctx, s, e)
		if c.refusal != "" {
			expectRefusal(t, err, c.refusal)
			valid := must.Do(store.Create(ctx, s, endpoint()))(t)
			_, err = s.UpdateEndpoint(ctx, valid.ID, func(_ *store.Tx, e *store.Endpoint) error { c.change(e); return nil })
			expectRefusal(t, err, c.refusal)
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		created = must.Do(s.UpdateEndpoint(ctx, created.ID, func(_ *store.Tx, e *store.Endpoint) error { e.Image = "other"; return nil }))(t)
		must.Hold(t, created.Version == 1 && created.Image == "other", "updated to", created.Image, "in version", created.Version)
	}
}

// BenchmarkEndpointPage reports the ratio of the times of the last and first of 1,000 pages. The goal is at most 3.
func BenchmarkEndpointPage(b *testing.B) {
	const all, limit = 100_000, 1000
	db := must.Do(sqldb.Open(b.Context(), sqldb.Config{}))(b)
	defer func() { _ = db.Close() }()
	s := must.Do(store.Open(b.Context(), db, new(clock.Clock)))(b)
	must.Do(store.Create(b.Context(), s, endpoint()))(b)
	err := db.Write(b.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(`INSERT INTO objects (id, kind, name, doc)
			WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT 'e' || i, kind, name, doc FROM n, objects WHERE objects.seq = 1`, all)
		return err
	})
	must.Succeed(b, err)
	read := func(before int64) time.Duration {
		start := time.Now()
		part, next, err := store.ReadPage[store.Endpoint](b.Context(), s, store.Page{Before: before, Limit: limit})
		must.Require(b, err == nil && len(part) == limit && (next == 0) == (before == limit+1),
			len(part), "endpoints before", before, "next is", next, err)
		return time.Since(start)
	}
	var first, last time.Duration
	for b.Loop() {
		first += read(math.MaxInt64)
		last += read(limit + 1)
	}
	b.ReportMetric(float64(last)/float64(first), "last/first")
}

// Package fire sets the provider on fire: generated schedules of faults between
// it and a jobrunner, in virtual time, and after each exactly what is configured
// is there, none twice, none left behind, none lost from the state.
//
//	make fire                                               every schedule
//	go test ./internal/test/fire -v -run Fire/v2 -fire.seed 17   one, and its story
package fire

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

var (
	schedules = flag.Int("fire.n", 15, "schedules of each version of the API, by seed from 1")
	fresh     = flag.Int("fire.fresh", 3, "further schedules, of seeds that nobody chose")
	only      = flag.Uint64("fire.seed", 0, "the schedule of this seed alone, with its story")
)

const key = "the-key-of-the-fire"

// attempts bounds how often an apply is repeated. Every schedule ends before.
const attempts = 60

func TestFire(t *testing.T) {
	for _, v := range acctest.Versions {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			for _, seed := range seeds() {
				if wrong := runSchedule(t, v, seed, none); len(wrong) > 0 {
					t.Errorf("again: go test ./internal/test/fire -run Fire/%s -count=20 -fire.seed %d\n%s", v, seed, strings.Join(wrong, "\n"))
				}
			}
		})
	}
}

func seeds() (out []uint64) {
	if *only > 0 {
		return []uint64{*only}
	}
	if testing.Short() {
		return []uint64{1, 2, 3, rand.Uint64N(1<<40) + 1<<20}
	}
	for n := range *schedules {
		out = append(out, uint64(n)+1)
	}
	for range *fresh {
		out = append(out, rand.Uint64N(1<<40)+1<<20)
	}
	return out
}

// runSchedule runs the scenario under one schedule, and returns the log of the run,
// followed by the failures.
func runSchedule(t *testing.T, v api.Version, seed uint64, f fault) (wrong []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		j, err := jobrunner.New(context.WithoutCancel(t.Context()), jobrunner.Config{APIKey: key})
		if err != nil {
			t.Fatal(err)
		}
		c := &core{
			t: t, version: v, deployment: newDeployment(j.Handler()), schedule: newSchedule(seed), fault: f,
			state: map[string]object{},
		}
		wrong = c.scenario()
		if *only > 0 {
			t.Logf("%s", c.schedule)
		} else if len(wrong) > 0 {
			wrong = append([]string{c.schedule.String()}, wrong...)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour) // what an interrupted run still waits for
	})
	return wrong
}

// scenario makes everything, changes it, and takes it down, each until it
// succeeds.
func (c *core) scenario() (wrong []string) {
	for i, nodes := range [][]node{configuration(false), configuration(true)} {
		c.schedule.begin(fmt.Sprintf("apply %d", i+1))
		if trouble := c.until("apply", func() []string { return c.apply(nodes) }); trouble != "" {
			return []string{trouble}
		}
		if wrong := c.check(nodes); len(wrong) > 0 {
			return append([]string{fmt.Sprintf("after apply %d:", i+1)}, wrong...)
		}
	}
	if c.fault == forgets {
		delete(c.state, "volume_b")
	}
	all := configuration(true)
	c.schedule.begin("destroy")
	if trouble := c.until("destroy", func() []string { return c.destroy(all) }); trouble != "" {
		return []string{trouble}
	}
	if wrong := c.check(nil); len(wrong) > 0 {
		return append([]string{"after destroy:"}, wrong...)
	}
	return nil
}

// until repeats a command until it succeeds.
func (c *core) until(command string, run func() []string) string {
	var trouble []string
	for range attempts {
		c.schedule.tell("terraform %s", command)
		if trouble = run(); len(trouble) == 0 {
			return ""
		}
		for _, text := range trouble {
			c.schedule.tell("  %s", text)
		}
	}
	return fmt.Sprintf("terraform %s fails for the %dth time:\n%s", command, attempts, strings.Join(trouble, "\n"))
}

// check compares deployment, state and configuration, with nothing in between.
func (c *core) check(nodes []node) (wrong []string) {
	ids := map[string]string{}
	for address, o := range c.state {
		id, _ := o.Get("id").(string)
		if other, twice := ids[id]; twice {
			wrong = append(wrong, fmt.Sprintf("%s and %s are the same object, %s", other, address, id))
		}
		ids[id] = address
		if !slices.ContainsFunc(nodes, func(n node) bool { return n.address == address }) {
			wrong = append(wrong, fmt.Sprintf("the state still has %s, %s", address, id))
		}
	}
	there := c.objects()
	for id, what := range there {
		if _, ok := ids[id]; !ok {
			wrong = append(wrong, fmt.Sprintf("%s %s is there and in no state", what, id))
		}
	}
	if len(there) != len(nodes) {
		wrong = append(wrong, fmt.Sprintf("%d objects are there, %d are configured", len(there), len(nodes)))
	}
	quiet := *c
	quiet.schedule = faultless()
	p := quiet.start()
	for _, n := range nodes {
		o, ok := c.state[n.address]
		if !ok || o.tainted {
			wrong = append(wrong, n.address+" is not in the state")
			continue
		}
		read, diags := p.Read(o.State)
		planned := p.Plan(n.kind, read, n.config(c.id))
		if err := append(diags, planned.Diagnostics...).Err(); err != nil || planned.Action != "no-op" {
			wrong = append(wrong, fmt.Sprintf("the next plan of %s is not empty: %s, %v", n.address, planned.Action, err))
		}
	}
	return wrong
}

// objects are those of the deployment, by id.
func (c *core) objects() map[string]string {
	client, err := api.New(api.Settings{BaseURL: "http://127.0.0.1:8420", APIKey: key, Version: c.version, Transport: &wire{
		deployment: c.deployment, schedule: faultless(),
	}})
	if err != nil {
		c.t.Fatal(err)
	}
	out := map[string]string{}
	ctx := context.WithoutCancel(c.t.Context())
	templates, e1 := client.Templates.List(ctx)
	volumes, e2 := client.NetworkVolumes.List(ctx)
	auths, e3 := client.RegistryAuths.List(ctx)
	endpoints, e4 := client.Endpoints.List(ctx)
	for _, err := range []error{e1, e2, e3, e4} {
		if err != nil {
			c.t.Fatal(err)
		}
	}
	for _, o := range templates {
		out[o.ID] = "template " + o.Name
	}
	for _, o := range volumes {
		out[o.ID] = "network volume " + o.Name
	}
	for _, o := range auths {
		out[o.ID] = "registry auth " + o.Name
	}
	for _, o := range endpoints {
		out[o.ID] = "endpoint " + o.Name
	}
	return out
}

// configuration is one of every kind and equal twins of those whose names are
// not unique; changed, most of it has other settings, and one is renamed.
func configuration(changed bool) []node {
	pick := func(before, after any) any {
		if changed {
			return after
		}
		return before
	}
	volume := func(address string) node {
		return node{address, "gpucloud_network_volume", nil, func(func(string) any) map[string]any {
			return map[string]any{"name": "models", "size": pick(10, 20), "data_center": "EU-RO-1"}
		}}
	}
	endpoint := func(address string) node {
		return node{address, "gpucloud_endpoint", []string{"template", "volume_a"}, func(id func(string) any) map[string]any {
			return map[string]any{
				"name": "work", "template_id": id("template"), "network_volumes": []any{id("volume_a")}, "data_center_ids": []any{"EU-RO-1"},
				"gpu": map[string]any{"type_ids": []any{"NVIDIA L4"}}, "workers": map[string]any{"min": 0, "max": pick(1, 2)},
			}
		}}
	}
	return []node{
		{"auth", "gpucloud_registry_auth", nil, func(func(string) any) map[string]any {
			return map[string]any{"name": pick("images", "other-images"), "username": "u", "password": "planted-password"}
		}},
		volume("volume_a"), volume("volume_b"),
		{"template", "gpucloud_template", []string{"auth"}, func(id func(string) any) map[string]any {
			return map[string]any{
				"name": "work", "image": "builtin/echo", "serverless": true, "registry": id("auth"), "env": map[string]any{"A": pick("1", "2")},
			}
		}},
		endpoint("endpoint_a"), endpoint("endpoint_b"),
	}
}

func newDeployment(h http.Handler) *deployment {
	return &deployment{handler: h, born: map[string]time.Time{}}
}

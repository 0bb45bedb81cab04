// Package fire tests the provider under generated schedules of network faults, in virtual time.
// At the end of each schedule, deployment, state and configuration must have the same objects.
//
//	make fire                                                          every schedule
//	go test ./internal/test/fire -v -run Fire/v2/pods -fire.seed 17   one, with its log
package fire

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

var (
	schedules = flag.Int("fire.n", 15, "schedules per API version and configuration, with seeds from 1; for pods only the last third")
	fresh     = flag.Int("fire.fresh", 3, "further schedules with random seeds")
	only      = flag.Uint64("fire.seed", 0, "only the schedule of this seed, with its log")
)

const key = "the-key-of-the-fire"

// attempts bounds the repetitions of an apply. Every schedule ends earlier.
const attempts = 60

func TestFire(t *testing.T) {
	for _, v := range acctest.Versions {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			for _, configuration := range configurations {
				t.Run(configuration.name, func(t *testing.T) {
					t.Parallel()
					for _, seed := range seeds(configuration.name) {
						must.Equal(t, runSchedule(t, v, configuration.nodes, seed, defect{}), nil,
							fmt.Sprintf("repeat it with: go test ./internal/test/fire -run Fire/%s/%s -count=20 -fire.seed %d", v, configuration.name, seed))
					}
				})
			}
		})
	}
}

// seeds returns the seeds of a configuration's schedules: for pods, which are slow, the last third.
func seeds(configuration string) (out []uint64) {
	if *only > 0 {
		return []uint64{*only}
	}
	numbered, random := *schedules, *fresh
	if testing.Short() {
		numbered, random = 1, 1
	}
	for seed := range uint64(numbered) {
		out = append(out, seed+1)
	}
	for range random {
		out = append(out, rand.Uint64N(1<<40)+1<<20)
	}
	if configuration == "pods" {
		out = out[len(out)*2/3:]
	}
	return out
}

// runSchedule runs the scenario under a schedule. After a failure it returns the log and the failures.
func runSchedule(t *testing.T, v api.Version, nodesOf nodeSource, seed uint64, d defect) (wrong []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		j := must.Do(jobrunner.New(context.WithoutCancel(t.Context()), jobrunner.Config{APIKey: key}))(t)
		r := rand.New(rand.NewPCG(seed, 0))
		c := &core{
			t: t, version: v, nodesOf: nodesOf, deployment: &deployment{handler: j.Handler(), createdAt: map[string]time.Time{}}, defect: d, state: map[string]object{},
			schedule: &schedule{seed: seed, rate: []float64{0.05, 0.15, 0.3, 0.6}[r.IntN(4)], depth: 3 + r.IntN(10)},
		}
		if d.fault != nil {
			c.defectFault = d.fault()
		}
		wrong = c.scenario()
		if *only > 0 {
			t.Logf("%s", c.schedule)
		} else if len(wrong) > 0 {
			wrong = append([]string{c.schedule.String()}, wrong...)
		}
		must.Succeed(t, j.Close())
		time.Sleep(time.Hour) // lets interrupted runs end
	})
	return wrong
}

// scenario creates, changes and destroys a configuration, each until it succeeds.
func (c *core) scenario() (wrong []string) {
	must.Do(c.client().SSHKeys.Set(context.WithoutCancel(c.t.Context()), []string{foreignKey}))(c.t)
	for i, nodes := range [][]node{c.nodesOf(c.version, false), c.nodesOf(c.version, true)} {
		c.schedule.begin(fmt.Sprintf("apply %d", i+1))
		if trouble := c.retry("apply", func() []string { return c.apply(nodes) }); trouble != "" {
			return []string{trouble}
		}
		if wrong := c.check(nodes); len(wrong) > 0 {
			return append([]string{fmt.Sprintf("after apply %d:", i+1)}, wrong...)
		}
	}
	if c.defect.forgets {
		delete(c.state, "volume_b")
	}
	nodes := c.nodesOf(c.version, true)
	c.schedule.begin("destroy")
	if trouble := c.retry("destroy", func() []string { return c.destroy(nodes) }); trouble != "" {
		return []string{trouble}
	}
	if wrong := c.check(nil); len(wrong) > 0 {
		return append([]string{"after destroy:"}, wrong...)
	}
	return nil
}

// retry repeats a command until it succeeds, and returns the last errors if it never does.
func (c *core) retry(command string, run func() []string) string {
	var trouble []string
	for range attempts {
		c.schedule.logf("terraform %s", command)
		if trouble = run(); len(trouble) == 0 {
			return ""
		}
		for _, text := range trouble {
			c.schedule.logf("  %s", text)
		}
	}
	return fmt.Sprintf("terraform %s failed %d times, at last with:\n%s", command, attempts, strings.Join(trouble, "\n"))
}

// check compares deployment, state and configuration, without faults.
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
	if _, found := withoutForeign(c.keys()); !found {
		wrong = append(wrong, "the SSH key of somebody else is gone")
	}
	objects := c.objects()
	for id, what := range objects {
		if _, ok := ids[id]; !ok {
			wrong = append(wrong, fmt.Sprintf("%s %s exists and is in no state", what, id))
		}
	}
	if len(objects) != len(nodes) {
		wrong = append(wrong, fmt.Sprintf("%d objects exist, %d are configured", len(objects), len(nodes)))
	}
	withoutFaults := *c
	withoutFaults.schedule = faultless()
	p := withoutFaults.start()
	for _, n := range nodes {
		o, ok := c.state[n.address]
		if !ok || o.tainted {
			wrong = append(wrong, n.address+" is not in the state, or tainted")
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

// client returns a client without faults.
func (c *core) client() *api.Client {
	return must.Do(api.New(api.Settings{BaseURL: "http://127.0.0.1:8420", APIKey: key, Version: c.version, Transport: newWire(c.t, &wire{
		deployment: c.deployment, schedule: faultless(),
	})}))(c.t)
}

// objects returns kind and name of the deployment's objects by id.
func (c *core) objects() map[string]string {
	client, out := c.client(), map[string]string{}
	ctx := context.WithoutCancel(c.t.Context())
	kinds := map[string]func(context.Context) ([]api.NamedObject, error){
		"template": client.Templates.ListNames, "network volume": client.NetworkVolumes.ListNames, "registry auth": client.RegistryAuths.ListNames,
		"endpoint": client.Endpoints.ListNames, "pod": client.Pods.ListNames,
	}
	if c.version == api.V2 {
		kinds["cluster"], kinds["registry delegation"] = client.Clusters.ListNames, client.Delegations.ListNames
		kinds["secret"], kinds["global volume"] = client.Secrets.ListNames, client.GlobalVolumes.ListNames
		if own, _ := withoutForeign(c.keys()); len(own) > 0 {
			out["account"] = "SSH keys"
		}
	}
	for kind, list := range kinds {
		for _, o := range must.Do(list(ctx))(c.t) {
			out[o.ID] = kind + " " + o.Name
		}
	}
	return out
}

func (c *core) keys() []string {
	return must.Do(c.client().SSHKeys.Get(context.WithoutCancel(c.t.Context())))(c.t)
}

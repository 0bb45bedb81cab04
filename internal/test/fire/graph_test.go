package fire

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

// node is a resource. config returns its arguments; id returns another's id, or tfdrive.Unknown.
type node struct {
	address, kind string
	needs         []string
	config        func(id func(address string) any) map[string]any
}

// object is a resource in the state.
type object struct {
	tfdrive.State
	tainted bool
}

// core imitates Terraform: it keeps the state, refreshes, plans, and applies concurrently in
// the order of the dependencies. Like an attentive user, it runs import commands of messages.
type core struct {
	t           *testing.T
	version     api.Version
	nodesOf     nodeSource
	deployment  *deployment
	schedule    *schedule
	defect      defect
	defectFault *wirefault.Fault // the fault of the defect; may be nil

	state map[string]object
}

// process is a running provider.
type process struct {
	*tfdrive.Provider
	wire        *wire
	mu          sync.Mutex
	interrupted bool // after SIGINT: starts nothing new
}

// start starts and configures a provider. Configure sends a request, so it is retried after a fault.
func (c *core) start() *process {
	var p *process
	for range attempts {
		p = c.startOnce()
		err := p.ConfigureDiagnostics.Err()
		if err == nil && !p.hasEnded() {
			return p
		}
		c.schedule.logf("  the provider is not configured: %s", outcome(err))
	}
	c.t.Fatal(p.ConfigureDiagnostics)
	return nil
}

func (c *core) startOnce() *process {
	p := &process{}
	p.wire = newWire(c.t, &wire{deployment: c.deployment, schedule: c.schedule, repeats: c.defect.repeats, defectFault: c.defectFault, stop: func() {
		p.mu.Lock()
		p.interrupted = true
		p.mu.Unlock()
		if p.Provider != nil { // nil until tfdrive.Start has configured it
			p.Stop()
		}
	}})
	p.Provider = tfdrive.Start(c.t, provider.NewWithTransport("test", p.wire)(), map[string]any{
		"base_url": "http://127.0.0.1:8420", "api_key": key, "api_version": string(c.version), "request_timeout": "20s",
	})
	return p
}

func (p *process) hasEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.interrupted || p.wire.killed()
}

// id returns the id that the state has for an address.
func (c *core) id(address string) any {
	if o, ok := c.state[address]; ok && !o.tainted {
		return o.Get("id")
	}
	return tfdrive.Unknown
}

// apply imitates one terraform apply and returns its errors.
func (c *core) apply(nodes []node) (trouble []string) {
	if trouble := c.plan(nodes); len(trouble) > 0 {
		return trouble
	}
	p := c.start() // Terraform starts a new process for the apply
	var mu sync.Mutex
	recordErrors := func(address string, diags tfdrive.Diagnostics) bool {
		err := diags.Err()
		if err == nil {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		trouble = append(trouble, address+": "+err.Error())
		return true
	}
	// Objects that are no longer configured are destroyed first.
	for _, address := range c.staleAddresses(nodes) {
		if !p.hasEnded() && !recordErrors(address, p.Destroy(c.state[address].State)) && !p.wire.killed() {
			delete(c.state, address)
		}
	}
	failed := map[string]bool{}
	for _, level := range levels(nodes) {
		var group sync.WaitGroup
		results, fails := make([]object, len(level)), make([]bool, len(level))
		for i, n := range level {
			if p.hasEnded() || slices.ContainsFunc(n.needs, func(a string) bool { return failed[a] }) {
				failed[n.address] = true
				continue
			}
			prior, config := c.state[n.address], n.config(c.id)
			group.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond) // makes the order deterministic
				o, diags := c.applyOne(p, n, prior, config)
				results[i], fails[i] = o, recordErrors(n.address, diags)
			})
		}
		group.Wait()
		if p.wire.killed() { // its results are lost
			return append(trouble, "the provider was killed")
		}
		for i, n := range level {
			failed[n.address] = failed[n.address] || fails[i]
			switch {
			case results[i].Exists():
				c.state[n.address] = results[i]
			case results[i].Type != "": // tried, and no object exists
				delete(c.state, n.address)
			}
		}
	}
	for _, n := range nodes {
		if failed[n.address] && len(trouble) == 0 {
			trouble = append(trouble, n.address+" was not started")
		}
	}
	if p.hasEnded() && len(trouble) == 0 {
		trouble = append(trouble, "interrupted")
	}
	c.runImports(nodes, trouble)
	return trouble
}

func (c *core) applyOne(p *process, n node, prior object, config map[string]any) (object, tfdrive.Diagnostics) {
	if prior.tainted {
		if diags := p.Destroy(prior.State); diags.Err() != nil {
			return prior, diags
		}
		prior = object{}
	}
	planned := p.Plan(n.kind, prior.State, config)
	if planned.Diagnostics.Err() != nil || planned.Action == "no-op" {
		prior.Type = n.kind
		return prior, planned.Diagnostics
	}
	if planned.Action == "replace" {
		if diags := p.Destroy(prior.State); diags.Err() != nil {
			return prior, diags
		}
		prior = object{State: tfdrive.State{Type: n.kind}}
		if p.hasEnded() {
			return prior, nil
		}
		planned = p.Plan(n.kind, tfdrive.State{}, config)
		if planned.Diagnostics.Err() != nil {
			return prior, planned.Diagnostics
		}
	}
	state, diags := p.Apply(planned)
	applied := object{State: state}
	if diags.Err() != nil {
		if !state.Exists() {
			prior.Type = n.kind
			return prior, diags
		}
		applied.tainted = planned.Action == "create"
	}
	return applied, diags
}

// plan refreshes the state and plans the configuration.
func (c *core) plan(nodes []node) (trouble []string) {
	p := c.start()
	for _, address := range slices.Sorted(maps.Keys(c.state)) {
		o := c.state[address]
		read, diags := p.Read(o.State)
		if p.hasEnded() {
			return []string{"interrupted while it refreshed"}
		}
		if err := diags.Err(); err != nil {
			trouble = append(trouble, address+": "+err.Error())
			continue
		}
		if !read.Exists() {
			c.schedule.logf("  %s no longer exists: removed from the state", address)
			delete(c.state, address)
			continue
		}
		c.state[address] = object{State: read, tainted: o.tainted}
	}
	if len(trouble) > 0 {
		return trouble
	}
	var advice []string
	for _, n := range nodes {
		o := c.state[n.address]
		if o.tainted {
			o = object{}
		}
		planned := p.Plan(n.kind, o.State, n.config(c.id))
		if p.hasEnded() {
			return []string{"interrupted while it planned"}
		}
		if err := planned.Diagnostics.Err(); err != nil {
			trouble = append(trouble, n.address+": "+err.Error())
		}
		if text := planned.Diagnostics.Warnings(); strings.Contains(text, "import it before you apply") {
			advice = append(advice, n.address+": "+text)
		}
	}
	if c.runImports(nodes, advice) {
		return append(trouble, "objects that the plan named were imported")
	}
	return trouble
}

var importCommand = regexp.MustCompile(`terraform import (\w+)\.NAME (\w+)`)

// runImports runs the import commands of messages, as a user would, and reports whether there were any.
func (c *core) runImports(nodes []node, messages []string) (ran bool) {
	known := map[string]bool{}
	for _, o := range c.state {
		if id, ok := o.Get("id").(string); ok {
			known[id] = true
		}
	}
	for _, message := range messages {
		address, _, _ := strings.Cut(message, ": ")
		i := slices.IndexFunc(nodes, func(n node) bool { return n.address == address })
		for _, m := range importCommand.FindAllStringSubmatch(message, -1) {
			kind, id := m[1], m[2]
			if _, has := c.state[address]; c.defect.ignoresAdvice || i < 0 || nodes[i].kind != kind || known[id] || has {
				continue
			}
			ran = true
			for range attempts {
				p := c.start()
				state, diags := p.Import(kind, id)
				c.schedule.logf("  terraform import %s %s: %s", address, id, outcome(diags.Err()))
				if diags.Err() == nil && !p.wire.killed() {
					if state.Exists() {
						c.state[address] = object{State: state}
						known[id] = true
					}
					break
				}
			}
		}
	}
	return ran
}

// outcome returns the first line of an error, or "done".
func outcome(err error) string {
	if err == nil {
		return "done"
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// destroy imitates one terraform destroy and returns its errors.
func (c *core) destroy(nodes []node) (trouble []string) {
	if trouble := c.plan(nil); len(trouble) > 0 {
		return trouble
	}
	p := c.start()
	for _, level := range slices.Backward(levels(nodes)) {
		for _, n := range level {
			o, ok := c.state[n.address]
			switch {
			case !ok:
				continue
			case p.hasEnded():
				return append(trouble, "interrupted")
			}
			diags := p.Destroy(o.State)
			switch err := diags.Err(); {
			case p.wire.killed():
				return append(trouble, "the provider was killed")
			case err != nil:
				return append(trouble, n.address+": "+err.Error())
			}
			delete(c.state, n.address)
		}
	}
	return trouble
}

// staleAddresses returns the addresses in the state that the configuration lacks.
func (c *core) staleAddresses(nodes []node) (addresses []string) {
	for _, address := range slices.Sorted(maps.Keys(c.state)) {
		if !slices.ContainsFunc(nodes, func(n node) bool { return n.address == address }) {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// levels sorts the nodes by dependencies. Nodes of one level are independent.
func levels(nodes []node) (out [][]node) {
	depth := map[string]int{}
	for _, n := range nodes { // dependencies come first
		d := 0
		for _, a := range n.needs {
			d = max(d, depth[a]+1)
		}
		depth[n.address] = d
		if d == len(out) {
			out = append(out, nil)
		}
		out[d] = append(out[d], n)
	}
	return out
}

func (o object) String() string { return fmt.Sprint(o.Get("name"), " ", o.Get("id")) }

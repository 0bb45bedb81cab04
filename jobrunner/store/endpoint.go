package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Endpoint is a serverless endpoint. Its name need not be unique.
type Endpoint struct {
	Head
	Type string `json:"type"` // QUEUE or LOAD_BALANCER, fixed

	// TemplateID is the linked template, or "". Container then equals the template's, and changes with it.
	TemplateID string `json:"templateId,omitempty"`
	Container

	// GPU and CPU are the workers' compute. At most one is set; if neither is, workers run on any machine.
	GPU *GPU  `json:"gpu,omitempty"`
	CPU []CPU `json:"cpu,omitempty"`

	WorkersMin     int64    `json:"workersMin"`
	WorkersMax     int64    `json:"workersMax"`
	IdleTimeout    int64    `json:"idleTimeout"` // s
	Scaling        Scaling  `json:"scaling"`
	DataCenterIDs  []string `json:"dataCenterIds,omitempty"`  // empty: any
	NetworkVolumes []string `json:"networkVolumes,omitempty"` // ids
	Timeout        int64    `json:"timeout"`                  // ms of a job's execution; 0: never set
	FlashBoot      string   `json:"flashboot"`                // OFF, FLASHBOOT or PRIORITY_FLASHBOOT

	// Version counts the releases since the creation: changes of the worker spec.
	Version int64 `json:"version"`
}

// GPU selects GPUs either by pools, without the excluded types, or by types in order of
// priority. If both lists are empty, it selects any GPU.
type GPU struct {
	Pools               []string `json:"pools,omitempty"`
	ExcludedTypes       []string `json:"excludedTypes,omitempty"`
	TypeIDs             []string `json:"typeIds,omitempty"`
	Count               int64    `json:"count"`
	AllowedCUDAVersions []string `json:"allowedCudaVersions,omitempty"` // empty: any
	MinCUDAVersion      string   `json:"minCudaVersion,omitempty"`      // "": no minimum
}

type CPU struct {
	FlavorID  string `json:"id"`
	VCPUCount int64  `json:"vcpuCount"`
}

const (
	QueueDelay   = "QUEUE_DELAY"
	RequestCount = "REQUEST_COUNT"
)

// Scaling configures when workers are added. Value is the seconds in the queue for
// QUEUE_DELAY, and the requests per worker for REQUEST_COUNT.
type Scaling struct {
	Type  string  `json:"type"`
	Value float64 `json:"value"`
}

const (
	Queue        = "QUEUE"
	LoadBalancer = "LOAD_BALANCER"
)

func (e *Endpoint) kind() kind { return endpoints }

func (e *Endpoint) refs() []string {
	return append(slices.Clone(e.NetworkVolumes), e.Registry, e.TemplateID)
}

// Link links the endpoint to a template, as API v1 does.
func (e *Endpoint) Link(t Template) { e.TemplateID, e.Container = t.ID, t.clone() }

// Copy copies a template's container without a link, as API v2 does.
func (e *Endpoint) Copy(t Template) { e.TemplateID, e.Container = "", t.clone() }

// Endpoint reads an endpoint. The error wraps ErrNotFound if it doesn't exist.
func (s *Store) Endpoint(ctx context.Context, id string) (Endpoint, error) {
	return Get[Endpoint](ctx, s, id)
}

// Endpoints lists the endpoints, the oldest first.
func (s *Store) Endpoints(ctx context.Context) ([]Endpoint, error) { return List[Endpoint](ctx, s) }

func (s *Store) EndpointIDs(ctx context.Context) (ids []string, err error) {
	err = s.db.Read(ctx, func(r *sqldb.Reader) (err error) {
		ids, err = column(r, "SELECT id FROM objects WHERE kind = ? ORDER BY id", endpoints.key)
		return err
	})
	return ids, err
}

func (e *Endpoint) beforeInsert(tx *Tx) error { return tx.checkEndpoint(*e, GPU{}, nil) }
func (e *Endpoint) afterInsert(tx *Tx) error  { return tx.storeRelease(*e, nil) }

// UpdateEndpoint changes an endpoint. change may read templates in tx, and may run more than once.
func (s *Store) UpdateEndpoint(ctx context.Context, id string, change func(tx *Tx, e *Endpoint) error) (out Endpoint, err error) {
	err = s.write(ctx, func(tx *Tx) (err error) {
		out, err = tx.updateEndpoint(id, func(e *Endpoint) error {
			gpuBefore, cpuBefore := *cmp.Or(e.GPU, new(GPU)), e.CPU
			if err := change(tx, e); err != nil {
				return err
			}
			return tx.checkEndpoint(*e, gpuBefore, cpuBefore)
		})
		return err
	})
	return out, err
}

// updateEndpoint changes an endpoint without a check, and stores a release if its worker spec changed.
func (tx *Tx) updateEndpoint(id string, change func(e *Endpoint) error) (Endpoint, error) {
	var e Endpoint
	if err := load(tx.tx, &e, id); err != nil {
		return e, err
	}
	before, err := specFields(e.workerSpec())
	if err != nil {
		return e, err
	}
	if err := change(&e); err != nil {
		return e, err
	}
	after, err := specFields(e.workerSpec())
	if err != nil {
		return e, err
	}
	diff := changes(before, after)
	if len(diff) > 0 {
		e.Version++
	}
	tx.recordChange(endpoints, id)
	if err := tx.save(&e); err != nil || len(diff) == 0 {
		return e, err
	}
	return e, tx.storeRelease(e, diff)
}

func (tx *Tx) updateReferrers(target string, change func(e *Endpoint)) error {
	ids, err := tx.referrers(endpoints, target)
	for _, id := range ids {
		if _, err := tx.updateEndpoint(id, func(e *Endpoint) error { change(e); return nil }); err != nil {
			return err
		}
	}
	return err
}

// checkEndpoint rejects contradictory members, and references to objects that don't exist. It accepts the
// compute from before an update, even if the catalog has changed.
func (tx *Tx) checkEndpoint(e Endpoint, gpuBefore GPU, cpuBefore []CPU) error {
	err := cmp.Or(checkMembers(e), tx.checkTemplate(e), tx.checkVolumes(e), tx.checkRegistry(e.Container))
	if g := e.GPU; err == nil && g != nil && (!slices.Equal(g.Pools, gpuBefore.Pools) || !slices.Equal(g.ExcludedTypes, gpuBefore.ExcludedTypes)) {
		err = tx.checkExclusions(*g)
	}
	for _, cpu := range e.CPU {
		if !slices.Contains(cpuBefore, cpu) {
			err = cmp.Or(err, tx.checkVCPUs(cpu.FlavorID, cpu.VCPUCount))
		}
	}
	return err
}

// maxWorkers limits an endpoint's workers, because even idle ones use resources.
const maxWorkers = 1000

func checkMembers(e Endpoint) error {
	switch {
	case e.WorkersMin > maxWorkers || e.WorkersMax > maxWorkers:
		return refusef("invalid number of workers: expected %d at most, got at least %d and at most %d", maxWorkers, e.WorkersMin, e.WorkersMax)
	case e.WorkersMin > e.WorkersMax:
		return refusef("at least %d workers and at most %d contradict each other", e.WorkersMin, e.WorkersMax)
	case e.Type == LoadBalancer && e.Scaling.Type != RequestCount:
		return refusef("a %s endpoint scales on %s alone, not on %s", LoadBalancer, RequestCount, e.Scaling.Type)
	case e.CPU != nil && len(e.CPU) == 0:
		return errNoFlavor
	case e.GPU != nil && len(e.CPU) > 0:
		return Refusal("an endpoint has GPU workers or CPU workers, not both")
	case e.GPU != nil && e.GPU.MinCUDAVersion != "" && len(e.GPU.AllowedCUDAVersions) > 0:
		return errTwoCUDA
	}
	return nil
}

const errNoFlavor = Refusal("the catalog has no CPU flavor with so many vCPUs: name one in cpuFlavorIds")
const errTwoCUDA = Refusal("minCudaVersion and a list of allowedCudaVersions exclude each other: clear one of them")

// checkExclusions rejects an excluded type that is in none of the pools. It accepts any type
// if a pool isn't in the catalog, because the pool's types are unknown then.
func (tx *Tx) checkExclusions(g GPU) error {
	if len(g.ExcludedTypes) == 0 {
		return nil
	}
	cat := tx.Catalog()
	var types []string
	for _, id := range g.Pools {
		pool, ok := cat.PoolByID(id)
		if !ok {
			return nil
		}
		types = append(types, pool.Types...)
	}
	for _, id := range g.ExcludedTypes {
		if !slices.Contains(types, id) {
			return refusef("GPU type %q can't be excluded: it is in none of the pools %s", id, strings.Join(g.Pools, ", "))
		}
	}
	if len(cat.TypesIn(g.Pools, g.ExcludedTypes)) == 0 {
		return refusef("the exclusions leave no GPU type of the pools %s", strings.Join(g.Pools, ", "))
	}
	return nil
}

func (tx *Tx) checkTemplate(e Endpoint) error {
	if e.TemplateID == "" {
		return nil
	}
	t, err := tx.Template(e.TemplateID)
	if err == nil && !t.Serverless {
		return refusef("template %q is not a serverless template", t.ID)
	}
	return err
}

func (tx *Tx) checkVolumes(e Endpoint) error {
	for _, id := range e.NetworkVolumes {
		if err := tx.require(networkVolumes, id); err != nil {
			return err
		}
	}
	return nil
}

// Release is a version of an endpoint's workerSpec.
type Release struct {
	Version int64     `json:"version"`
	Created time.Time `json:"created"` // UTC, whole milliseconds
	Changes []Change  `json:"changes"`
}

// Change is a field that a release changed. Its values are JSON, null if they are unset.
type Change struct {
	Field string          `json:"field"`
	Old   json.RawMessage `json:"old"`
	New   json.RawMessage `json:"new"`
}

const maxReleases = 100

// workerSpec holds the fields of an endpoint that define its workers. A change of it is a release.
type workerSpec struct {
	Image     string            `json:"template.imageName"`
	Args      string            `json:"template.dockerArgs,omitempty"`
	Disk      int64             `json:"template.containerDiskInGb"`
	Env       map[string]string `json:"template.env,omitempty"`
	Ports     []string          `json:"template.ports,omitempty"`
	Registry  string            `json:"template.containerRegistryAuthId,omitempty"`
	GPU       *GPU              `json:"gpu,omitempty"`
	CPU       []CPU             `json:"cpu,omitempty"`
	Volumes   []string          `json:"networkVolumes,omitempty"`
	Locations []string          `json:"locations,omitempty"`
	FlashBoot string            `json:"flashboot"`
}

func (e *Endpoint) workerSpec() workerSpec {
	return workerSpec{
		Image: e.Image, Args: e.comparableArgs(), Disk: e.Disk, Env: e.Env, Ports: e.Ports, Registry: e.Registry,
		GPU: e.GPU, CPU: e.CPU, Volumes: e.NetworkVolumes, Locations: e.DataCenterIDs, FlashBoot: e.FlashBoot,
	}
}

// changes returns the fields that differ, sorted by name.
func changes(before, after map[string]json.RawMessage) (out []Change) {
	valueIn := func(fields map[string]json.RawMessage, name string) json.RawMessage {
		if value, ok := fields[name]; ok {
			return value
		}
		return json.RawMessage("null")
	}
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if c := (Change{name, valueIn(before, name), valueIn(after, name)}); !bytes.Equal(c.Old, c.New) {
			out = append(out, c)
		}
	}
	return out
}

func specFields(spec workerSpec) (out map[string]json.RawMessage, err error) {
	text, err := json.Marshal(spec)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out, err
}

func (tx *Tx) storeRelease(e Endpoint, diff []Change) error {
	doc, err := json.Marshal(Release{Version: e.Version, Created: tx.now, Changes: diff})
	if err != nil {
		return err
	}
	if _, err := tx.tx.Exec("INSERT INTO releases (endpoint, version, doc) VALUES (?, ?, ?)", e.ID, e.Version, string(doc)); err != nil {
		return err
	}
	_, err = tx.tx.Exec("DELETE FROM releases WHERE endpoint = ? AND version <= ?", e.ID, e.Version-maxReleases)
	return err
}

// Releases lists an endpoint's releases, the newest first.
func (s *Store) Releases(ctx context.Context, endpoint string) ([]Release, error) {
	all, _, err := s.ReleasePage(ctx, endpoint, Page{math.MaxInt64, maxReleases})
	return all, err
}

// ReleasePage lists a page of an endpoint's releases, like ReadPage.
func (s *Store) ReleasePage(ctx context.Context, endpoint string, p Page) (out []Release, next int64, err error) {
	return readPage[Release](ctx, s, "release of an endpoint", p, "SELECT doc, version FROM releases WHERE endpoint = ? AND version < ? ORDER BY version DESC LIMIT ?", endpoint)
}

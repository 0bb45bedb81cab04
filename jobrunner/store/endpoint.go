package store

import (
	"context"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Endpoint is a serverless endpoint. Its name need not be unique.
type Endpoint struct {
	Head
	Type string `json:"type"` // QUEUE or LOAD_BALANCER, fixed

	// TemplateID is the template that the endpoint follows, "" for none. The
	// Container then equals the template's, and changes with it.
	TemplateID string `json:"templateId,omitempty"`
	Container

	// GPU and CPU are the workers' compute; with neither, any will do.
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

	// Version counts the changes of what workers are made of since the creation.
	Version int64 `json:"version"`
}

// GPU is a choice of GPUs. It was made either by pools, less the excluded
// types, or by types in order of priority; where both are empty, any GPU will
// do.
type GPU struct {
	Pools               []string `json:"pools,omitempty"`
	ExcludedTypes       []string `json:"excludedTypes,omitempty"`
	TypeIDs             []string `json:"typeIds,omitempty"`
	Count               int64    `json:"count"`
	AllowedCUDAVersions []string `json:"allowedCudaVersions,omitempty"` // empty: any
	MinCUDAVersion      string   `json:"minCudaVersion,omitempty"`      // "": no floor
}

// CPU is one configuration that will do.
type CPU struct {
	FlavorID  string `json:"id"`
	VCPUCount int64  `json:"vcpuCount"`
}

// The signals that Scaling knows.
const (
	QueueDelay   = "QUEUE_DELAY"
	RequestCount = "REQUEST_COUNT"
)

// Scaling says when workers are added: Value is seconds in the queue for
// QUEUE_DELAY, requests per worker for REQUEST_COUNT.
type Scaling struct {
	Type  string  `json:"type"`
	Value float64 `json:"value"`
}

// The types of endpoints.
const (
	Queue        = "QUEUE"
	LoadBalancer = "LOAD_BALANCER"
)

func (e *Endpoint) kind() kind { return endpoints }

func (e *Endpoint) refs() []string {
	refs := slices.Concat(e.Container.refs(), e.NetworkVolumes)
	if e.TemplateID != "" {
		refs = append(refs, e.TemplateID)
	}
	return refs
}

// Link makes the endpoint follow a template, as API v1 does.
func (e *Endpoint) Link(t Template) { e.TemplateID, e.Container = t.ID, t.clone() }

// Copy takes a template's container over once, as API v2 does.
func (e *Endpoint) Copy(t Template) { e.TemplateID, e.Container = "", t.clone() }

// Endpoint reads one endpoint. The error wraps ErrNotFound where there is none.
func (s *Store) Endpoint(ctx context.Context, id string) (Endpoint, error) {
	return get[Endpoint](ctx, s, id)
}

// Endpoints lists the endpoints, the oldest first.
func (s *Store) Endpoints(ctx context.Context) ([]Endpoint, error) { return list[Endpoint](ctx, s) }

// EndpointIDs lists the ids of the endpoints, in their order, without reading the objects.
func (s *Store) EndpointIDs(ctx context.Context) (ids []string, err error) {
	err = s.db.Read(ctx, func(r *sqldb.Reader) error {
		rows, err := r.Query("SELECT id FROM objects WHERE kind = ?", endpoints.key)
		ids, err = column(rows, err)
		return err
	})
	slices.Sort(ids)
	return ids, err
}

// EndpointPage lists a part of the endpoints, with the position of the next part.
func (s *Store) EndpointPage(ctx context.Context, p Page) (part []Endpoint, next int64, err error) {
	return page[Endpoint](ctx, s, p)
}

// CreateEndpoint keeps the endpoint that build returns under an id of its own.
// build may read templates in tx, and may be run more than once.
func (s *Store) CreateEndpoint(ctx context.Context, build func(tx *Tx) (Endpoint, error)) (Endpoint, error) {
	now := s.clock.Wall()
	var out Endpoint
	err := s.write(ctx, func(tx *Tx) error {
		e, err := build(tx)
		if err != nil {
			return err
		}
		if err := tx.checkEndpoint(e); err != nil {
			return err
		}
		if err := tx.insert(&e, now); err != nil {
			return err
		}
		tx.changedEndpoints = append(tx.changedEndpoints, e.ID)
		out = e
		return tx.release(e, nil)
	})
	return out, err
}

// UpdateEndpoint changes an endpoint. change may read templates in tx, and may
// be run more than once.
func (s *Store) UpdateEndpoint(ctx context.Context, id string, change func(tx *Tx, e *Endpoint) error) (Endpoint, error) {
	var out Endpoint
	err := s.write(ctx, func(tx *Tx) (err error) {
		out, err = tx.updateEndpoint(id, func(e *Endpoint) error {
			if err := change(tx, e); err != nil {
				return err
			}
			return tx.checkEndpoint(*e)
		})
		return err
	})
	return out, err
}

// updateEndpoint changes an endpoint, and keeps a change of what its workers are
// made of as a release. It does not check what a change of another record leaves right.
func (tx *Tx) updateEndpoint(id string, change func(e *Endpoint) error) (Endpoint, error) {
	var e Endpoint
	if err := load(tx.tx, &e, id); err != nil {
		return e, err
	}
	before, err := fields(e.workerSpec())
	if err != nil {
		return e, err
	}
	if err := change(&e); err != nil {
		return e, err
	}
	after, err := fields(e.workerSpec())
	if err != nil {
		return e, err
	}
	changed := changes(before, after)
	if len(changed) > 0 {
		e.Version++
	}
	tx.changedEndpoints = append(tx.changedEndpoints, id)
	if err := tx.save(&e); err != nil || len(changed) == 0 {
		return e, err
	}
	return e, tx.release(e, changed)
}

// DeleteEndpoint deletes an endpoint, and never its template.
func (s *Store) DeleteEndpoint(ctx context.Context, id string) error {
	return s.delete(ctx, func(tx *Tx) error {
		tx.changedEndpoints = append(tx.changedEndpoints, id)
		return tx.remove(endpoints, id)
	})
}

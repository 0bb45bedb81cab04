package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// catalog caches the catalog's lists by query for the client's lifetime. It doesn't cache
// errors.
type catalog struct {
	deployment *deployment
	lists      sync.Map // []T by address
	flight     singleflight.Group
}

// GPUTypes returns the catalog's GPU types, and caches them. The catalog belongs to API v2 and
// is read there with every version of the client.
func (c *Client) GPUTypes(ctx context.Context) ([]GPUType, error) { return c.FindGPUTypes(ctx, nil) }

// FindGPUTypes is GPUTypes with a query. Each query is cached.
func (c *Client) FindGPUTypes(ctx context.Context, query url.Values) ([]GPUType, error) {
	return catalogList[GPUType](ctx, &c.catalog, "gpus", "gpus", "GPU types", query, decodePlain[GPUType])
}

// GPUType returns a GPU type by its id. The list for this query may lack it.
func (c *Client) GPUType(ctx context.Context, id string, query url.Values) (GPUType, error) {
	return catalogEntry[GPUType](ctx, &c.catalog, "gpus", id, query)
}

// FindCPUTypes returns the catalog's CPU flavors. Each query is cached.
func (c *Client) FindCPUTypes(ctx context.Context, query url.Values) ([]CPUType, error) {
	return catalogList[CPUType](ctx, &c.catalog, "cpus", "cpus", "CPU types", query, decodePlain[CPUType])
}

// CPUType returns a CPU flavor by its id.
func (c *Client) CPUType(ctx context.Context, id string, query url.Values) (CPUType, error) {
	return catalogEntry[CPUType](ctx, &c.catalog, "cpus", id, query)
}

// DataCenter returns a data center by its id.
func (c *Client) DataCenter(ctx context.Context, id string, query url.Values) (DataCenter, error) {
	return catalogEntry[DataCenter](ctx, &c.catalog, "datacenters", id, query)
}

// FindDataCenters returns the catalog's data centers. Each query is cached.
func (c *Client) FindDataCenters(ctx context.Context, query url.Values) ([]DataCenter, error) {
	return catalogList[DataCenter](ctx, &c.catalog, "datacenters", "dataCenters", "data centers", query, decodePlain[DataCenter])
}

func catalogList[T any](ctx context.Context, c *catalog, path, member, title string, query url.Values, decode func(json.RawMessage) (T, error)) ([]T, error) {
	entries, err := remember(ctx, c, path+"?"+query.Encode(), "asking the catalog for "+title, func(ctx context.Context) ([]T, error) {
		elements, err := c.deployment.elements(ctx, httpclient.Call{URL: c.url(path), Query: query}, member)
		if err != nil {
			return nil, err
		}
		return decodeElements(elements, decode)
	})
	return slices.Clone(entries), err
}

// remember returns the cached value of a key. If there is none, it calls ask once for all
// concurrent callers, and caches the result unless it is an error.
func remember[T any](ctx context.Context, c *catalog, key, doing string, ask func(context.Context) ([]T, error)) ([]T, error) {
	known := func() ([]T, bool) {
		known, _ := c.lists.Load(key)
		entries, ok := known.([]T)
		return entries, ok
	}
	return share(ctx, &c.flight, key, doing, known, func(ctx context.Context) ([]T, error) {
		entries, err := ask(ctx)
		if err == nil {
			c.lists.Store(key, entries)
		}
		return entries, err
	})
}

func catalogEntry[T any](ctx context.Context, c *catalog, path, id string, query url.Values) (T, error) {
	answer := identified[T]{kind: "catalog entry", want: id, decode: decodePlain[T]}
	err := c.deployment.Do(ctx, httpclient.Call{Method: http.MethodGet, URL: c.url(path + "/" + url.PathEscape(id)), Query: query}, &answer)
	return answer.object, err
}

func (c *catalog) url(path string) string {
	return c.deployment.settings.BaseURL + "/v2/catalog/" + path
}

// SelectionError lists the GPU types that no selection of pools can express: they are in no
// serverless pool, or not in the catalog.
type SelectionError struct {
	NoPool, Unknown []string // sorted
}

// Error lists the types by reason.
func (e *SelectionError) Error() string {
	var parts []string
	if len(e.NoPool) > 0 {
		parts = append(parts, "in no serverless pool: "+strings.Join(e.NoPool, ", "))
	}
	if len(e.Unknown) > 0 {
		parts = append(parts, "not in the deployment's catalog: "+strings.Join(e.Unknown, ", "))
	}
	return "no selection of GPU pools reaches these GPU types (" + strings.Join(parts, "; ") + ")"
}

// SelectGPUs returns the pools, and the types to exclude from them, that select exactly these
// GPU types. Both are sorted. On API v1, which accepts the types themselves, both are nil. If
// no selection exists, the error is a *SelectionError.
func (c *Client) SelectGPUs(ctx context.Context, typeIDs []string) (pools, excluded []string, err error) {
	if c.Version == V1 || len(typeIDs) == 0 {
		return nil, nil, nil
	}
	types, err := c.GPUTypes(ctx)
	if err != nil {
		return nil, nil, err
	}
	return selectGPUs(types, typeIDs)
}

func selectGPUs(types []GPUType, typeIDs []string) (pools, excluded []string, err error) {
	poolOf := make(map[string]string, len(types))
	for _, t := range types {
		poolOf[t.ID] = t.Pool
	}
	var unreachable SelectionError
	for _, id := range sortedSet(typeIDs) {
		switch pool, known := poolOf[id]; {
		case !known:
			unreachable.Unknown = append(unreachable.Unknown, id)
		case pool == "":
			unreachable.NoPool = append(unreachable.NoPool, id)
		default:
			pools = append(pools, pool)
		}
	}
	if unreachable.Unknown != nil || unreachable.NoPool != nil {
		return nil, nil, &unreachable
	}
	pools = sortedSet(pools)
	for _, t := range types {
		if slices.Contains(pools, t.Pool) && !slices.Contains(typeIDs, t.ID) {
			excluded = append(excluded, t.ID)
		}
	}
	return pools, sortedSet(excluded), nil
}

func sortedSet(of []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(of)))
}

// Amounts of money are kept as the text of the answer: nothing is rounded.

type GPUType struct {
	ID           string          `json:"id" tfsdk:"id"`
	Name         string          `json:"name" tfsdk:"name"`
	Pool         string          `json:"pool" tfsdk:"pool"`     // "" if in no serverless pool
	Memory       int64           `json:"memory" tfsdk:"memory"` // GB
	Manufacturer string          `json:"manufacturer" tfsdk:"manufacturer"`
	Secure       bool            `json:"secure" tfsdk:"secure"`
	Community    bool            `json:"community" tfsdk:"community"`
	Price        GPUPrice        `json:"price" tfsdk:"price"`
	MaxCount     CloudCount      `json:"maxCount" tfsdk:"max_count"`
	Availability string          `json:"availability" tfsdk:"availability"` // "" if the request doesn't ask for it; the same holds for DataCenters and CUDAVersions
	DataCenters  []Availability  `json:"dataCenters" tfsdk:"data_centers"`
	CUDAVersions []CUDAAvailable `json:"cudaVersions" tfsdk:"cuda_versions"`
}

// GPUPrice is the price of one GPU per hour in USD; "" if it isn't offered.
type GPUPrice struct {
	Secure     json.Number `json:"secure" tfsdk:"secure"`
	Community  json.Number `json:"community" tfsdk:"community"`
	Serverless json.Number `json:"serverless" tfsdk:"serverless"`
}

type CloudCount struct {
	Secure    int64 `json:"secure" tfsdk:"secure"`
	Community int64 `json:"community" tfsdk:"community"`
}

// Availability is the stock of something: NONE, LOW, MEDIUM or HIGH.
type Availability struct {
	ID           string `json:"id" tfsdk:"id"`
	Name         string `json:"name" tfsdk:"name"`
	Availability string `json:"availability" tfsdk:"availability"`
}

// CUDAAvailable reports whether a machine with a CUDA version is available.
type CUDAAvailable struct {
	Version   string `json:"version" tfsdk:"version"`
	Available bool   `json:"available" tfsdk:"available"`
}

type CPUType struct {
	ID           string         `json:"id" tfsdk:"id"`
	Name         string         `json:"name" tfsdk:"name"`
	Group        string         `json:"group" tfsdk:"group"`
	VCPU         VCPURange      `json:"vcpu" tfsdk:"vcpu"`
	RAMGBPerVCPU json.Number    `json:"ramGbPerVcpu" tfsdk:"ram_gb_per_vcpu"`
	Price        CPUPrice       `json:"price" tfsdk:"price"`
	Availability string         `json:"availability" tfsdk:"availability"` // "" if the request doesn't ask for it; the same holds for DataCenters
	DataCenters  []Availability `json:"dataCenters" tfsdk:"data_centers"`
}

type VCPURange struct {
	Min int64 `json:"min" tfsdk:"min"`
	Max int64 `json:"max" tfsdk:"max"`
}

// CPUPrice is the price of one vCPU per hour in USD.
type CPUPrice struct {
	SecurePerVCPU     json.Number `json:"securePerVcpu" tfsdk:"secure_per_vcpu"`
	ServerlessPerVCPU json.Number `json:"serverlessPerVcpu" tfsdk:"serverless_per_vcpu"`
}

type DataCenter struct {
	ID                 string         `json:"id" tfsdk:"id"`
	Name               string         `json:"name" tfsdk:"name"`
	Region             string         `json:"region" tfsdk:"region"`
	GlobalNetwork      bool           `json:"globalNetwork" tfsdk:"global_network"`
	NetworkVolumeTypes []string       `json:"networkVolumeTypes" tfsdk:"network_volume_types"`
	Compliance         []string       `json:"compliance" tfsdk:"compliance"`
	GPUAvailability    []Availability `json:"gpuAvailability" tfsdk:"gpu_availability"` // nil if the request doesn't ask for it
	CPUAvailability    []Availability `json:"cpuAvailability" tfsdk:"cpu_availability"` // nil if the request doesn't ask for it
}

// CatalogTemplate is a public template. Source is official, verified or community, or
// "" if it isn't in the catalog's lists, which hold at most 100.
type CatalogTemplate struct {
	Template
	Source string
}

// CatalogTemplates lists the public templates of all sources. It reads each list
// once. API v1 doesn't distinguish verified from community templates.
func (c *Client) CatalogTemplates(ctx context.Context) (all []CatalogTemplate, err error) {
	if c.Version == V1 {
		return c.catalogTemplatesV1(ctx)
	}
	decode := templatesV2(c.deployment, nil).decode
	for _, source := range []string{"official", "verified", "community"} {
		list, err := catalogList(ctx, &c.catalog, "templates", "templates", "templates", url.Values{"source": {source}}, decode)
		if err != nil {
			return nil, err
		}
		for _, t := range list {
			all = append(all, CatalogTemplate{t, source})
		}
	}
	return all, nil
}

// CatalogTemplate returns a public template by its id.
func (c *Client) CatalogTemplate(ctx context.Context, id string) (CatalogTemplate, error) {
	all, err := c.CatalogTemplates(ctx)
	if err != nil {
		return CatalogTemplate{}, err
	}
	for _, t := range all {
		if t.ID == id {
			return t, nil
		}
	}
	t, err := c.Templates.Get(ctx, id)
	if err == nil && !t.Public {
		err = fmt.Errorf("the template %s is not public: it is a template of the account", id)
	}
	return CatalogTemplate{Template: t}, err
}

// catalogTemplatesV1 returns the public templates from the list of all templates.
func (c *Client) catalogTemplatesV1(ctx context.Context) ([]CatalogTemplate, error) {
	own := templatesV1(c.deployment, nil)
	return remember(ctx, &c.catalog, "v1 templates", "asking for public templates", func(ctx context.Context) (all []CatalogTemplate, err error) {
		query := url.Values{"includePublicTemplates": {"true"}, "includeRunpodTemplates": {"true"}, "includeEndpointBoundTemplates": {"true"}}
		elements, err := c.deployment.elements(ctx, httpclient.Call{URL: c.deployment.settings.BaseURL + own.path, Query: query}, "")
		if err != nil {
			return nil, err
		}
		for _, e := range elements {
			t, err := decodeElement(e, own.decode)
			if err != nil {
				return nil, err
			}
			operator, err := decodeElement(e, decodePlain[struct{ IsRunpod, IsPlatform bool }]) // one flag, two names
			switch {
			case err != nil:
				return nil, err
			case operator.IsRunpod || operator.IsPlatform:
				all = append(all, CatalogTemplate{t, "official"})
			case t.Public:
				all = append(all, CatalogTemplate{t, "community"})
			}
		}
		return all, nil
	})
}

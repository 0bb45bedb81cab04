package api

import (
	"cmp"
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

// CatalogList is a list of the catalog. Only API v2 has a catalog, so clients of v1 read it from v2, except the
// templates, which they read from v1.
type CatalogList[T any] struct {
	deployment          *deployment
	path, member, title string
	decode              func(json.RawMessage) (T, error)
	entriesByQuery      sync.Map // []T; errors aren't cached
	flight              singleflight.Group
}

func (*CatalogList[T]) Head(entry T) NamedObject { return head(entry) }

// Find returns the entries for a query. Each query is cached for the client's lifetime.
func (l *CatalogList[T]) Find(ctx context.Context, query url.Values) ([]T, error) {
	key := query.Encode()
	cached := func() ([]T, bool) {
		found, _ := l.entriesByQuery.Load(key)
		entries, ok := found.([]T)
		return entries, ok
	}
	entries, err := share(ctx, &l.flight, key, "asking the catalog for "+l.title, cached, func(ctx context.Context) ([]T, error) {
		elements, err := l.deployment.elements(ctx, httpclient.Call{URL: l.deployment.settings.BaseURL + l.path, Query: query}, l.member)
		if err != nil {
			return nil, err
		}
		entries, err := decodeElements(elements, l.decode)
		if err == nil {
			l.entriesByQuery.Store(key, entries)
		}
		return entries, err
	})
	return slices.Clone(entries), err
}

// Get returns an entry by its id. The list for this query may lack it.
func (l *CatalogList[T]) Get(ctx context.Context, id string, query url.Values) (T, error) {
	answer := objectAnswer[T]{kind: "catalog entry", want: id, decode: l.decode}
	_, err := l.deployment.Do(ctx, httpclient.Call{Method: http.MethodGet, URL: l.deployment.settings.BaseURL + l.path + "/" + url.PathEscape(id), Query: query}, &answer)
	return answer.object, err
}

// SelectionError lists the GPU types that no selection of pools can express: they are in no
// serverless pool, or not in the catalog.
type SelectionError struct {
	NoPool, Unknown []string // sorted
}

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
	types, err := c.GPUTypes.Find(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
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

func sortedSet(texts []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(texts)))
}

// Amounts of money are kept as the text of the answer: nothing is rounded.

type GPUType struct {
	ID           string             `json:"id"`
	Name         string             `json:"name"`
	Pool         string             `json:"pool"`   // "" if in no serverless pool
	Memory       int64              `json:"memory"` // GB
	Manufacturer string             `json:"manufacturer"`
	Secure       bool               `json:"secure"`
	Community    bool               `json:"community"`
	Price        GPUPrice           `json:"price"`
	MaxCount     CloudCount         `json:"maxCount"`
	Availability string             `json:"availability"` // "" if the request doesn't ask for it; the same holds for DataCenters and CUDAVersions
	DataCenters  []Availability     `json:"dataCenters"`
	CUDAVersions []CUDAAvailability `json:"cudaVersions"`
}

// GPUPrice is the price of one GPU per hour in USD; "" if it isn't offered.
type GPUPrice struct {
	Secure     json.Number `json:"secure"`
	Community  json.Number `json:"community"`
	Serverless json.Number `json:"serverless"`
}

type CloudCount struct {
	Secure    int64 `json:"secure"`
	Community int64 `json:"community"`
}

// Availability is the stock of something: NONE, LOW, MEDIUM or HIGH.
type Availability struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Availability string `json:"availability"`
}

// CUDAAvailability reports whether a machine with a CUDA version is available.
type CUDAAvailability struct {
	Version   string `json:"version"`
	Available bool   `json:"available"`
}

type CPUType struct {
	ID           string         `json:"id"`
	Name         string         `json:"name"`
	Group        string         `json:"group"`
	VCPU         VCPURange      `json:"vcpu"`
	RAMGBPerVCPU json.Number    `json:"ramGbPerVcpu"`
	Price        CPUPrice       `json:"price"`
	Availability string         `json:"availability"` // "" if the request doesn't ask for it; the same holds for DataCenters
	DataCenters  []Availability `json:"dataCenters"`
}

type VCPURange struct {
	Min int64 `json:"min"`
	Max int64 `json:"max"`
}

// CPUPrice is the price of one vCPU per hour in USD.
type CPUPrice struct {
	SecurePerVCPU     json.Number `json:"securePerVcpu"`
	ServerlessPerVCPU json.Number `json:"serverlessPerVcpu"`
}

type DataCenter struct {
	ID                 string         `json:"id"`
	Name               string         `json:"name"`
	Region             string         `json:"region"`
	GlobalNetwork      bool           `json:"globalNetwork"`
	NetworkVolumeTypes []string       `json:"networkVolumeTypes"`
	Compliance         []string       `json:"compliance"`
	GPUAvailability    []Availability `json:"gpuAvailability"` // nil if the request doesn't ask for it
	CPUAvailability    []Availability `json:"cpuAvailability"` // nil if the request doesn't ask for it
}

// CatalogTemplate is a public template. Source is official, verified or community, or
// "" if it isn't in the catalog's lists, which hold at most 100.
type CatalogTemplate struct {
	Template
	Source string
}

// CatalogTemplates lists the public templates of all sources. It reads each list once. API v1 has
// one list of all templates, and doesn't distinguish verified from community templates.
func (c *Client) CatalogTemplates(ctx context.Context) (all []CatalogTemplate, err error) {
	queries := []url.Values{{"source": {"official"}}, {"source": {"verified"}}, {"source": {"community"}}}
	if c.Version == V1 {
		queries = []url.Values{{"includePublicTemplates": {"true"}, "includeRunpodTemplates": {"true"}, "includeEndpointBoundTemplates": {"true"}}}
	}
	for _, query := range queries {
		list, err := c.catalogTemplates.Find(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, t := range list {
			if t.Source = cmp.Or(t.Source, query.Get("source")); t.Source != "" {
				all = append(all, t)
			}
		}
	}
	return all, nil
}

// decodeCatalogTemplate decodes a template of a catalog list. Only API v1 returns its source.
func (c *Client) decodeCatalogTemplate(raw json.RawMessage) (t CatalogTemplate, err error) {
	if t.Template, err = c.Templates.decode(raw); err != nil || c.Version != V1 {
		return t, err
	}
	flags, err := decodePlain[struct{ IsRunpod, IsPlatform bool }](raw) // two names of one flag
	switch {
	case flags.IsRunpod || flags.IsPlatform:
		t.Source = "official"
	case t.Public:
		t.Source = "community"
	}
	return t, err
}

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

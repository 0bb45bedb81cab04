package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/singleflight"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// catalog remembers the GPU types for as long as the client lives. An answer
// that failed is not remembered.
type catalog struct {
	deployment *deployment
	types      atomic.Pointer[[]GPUType]
	flight     singleflight.Group
}

// GPUTypes returns the catalog's GPU types. The catalog is a part of API v2,
// and is asked there whatever the client's version is. It is asked once.
func (c *Client) GPUTypes(ctx context.Context) ([]GPUType, error) { return c.catalog.gpuTypes(ctx) }

func (c *catalog) gpuTypes(ctx context.Context) ([]GPUType, error) {
	if known := c.types.Load(); known != nil {
		return slices.Clone(*known), nil
	}
	types, err := share(ctx, &c.flight, "", "asking the catalog for GPU types", func(ctx context.Context) ([]GPUType, error) {
		types, err := c.fetch(ctx)
		if err == nil {
			c.types.Store(&types)
		}
		return types, err
	})
	return slices.Clone(types), err
}

func (c *catalog) fetch(ctx context.Context) ([]GPUType, error) {
	answer := listOf[GPUType]{member: "gpus"}
	err := c.deployment.Do(ctx, httpclient.Call{
		Method: http.MethodGet, URL: c.deployment.settings.BaseURL + "/v2/catalog/gpus",
	}, &answer)
	if err != nil {
		return nil, err
	}
	return answer.objects, nil
}

// SelectionError names the GPU types that no selection of pools reaches: the
// catalog has them in no serverless pool, or not at all.
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

// SelectGPUs returns the pools, and the types to exclude from them, that mean
// exactly these GPU types; both sorted. API v1 takes the types themselves, and
// there all is nil. The error is a *SelectionError where no selection means
// them.
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

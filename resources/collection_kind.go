package resources

import (
	"cmp"
	"context"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// newCollectionKind completes a kind whose objects are a collection of the client: it adds the title, which
// is the name in words, and each function that the kind lacks. expand and flatten convert an object;
// nil converts all fields by name.
func newCollectionKind[M, T any](k kit.Kind[M], collection func(*api.Client) api.Collection[T], expand func(*M) T, flatten func(*M, T)) *kit.Kind[M] {
	id := func(m *M) string { return value.Text(m, "id").ValueString() }
	k.Title = cmp.Or(k.Title, strings.ReplaceAll(k.Name, "_", " "))
	if expand == nil {
		expand = func(m *M) (object T) { value.Expand(m, &object); return object }
	}
	if flatten == nil {
		flatten = func(m *M, got T) { value.Flatten(got, m) }
	}
	record := func(m *M, got T, err error) error {
		if err == nil {
			flatten(m, got)
		}
		return err
	}
	k.Objects = func(ctx context.Context, c *api.Client) ([]api.Named, error) { return collection(c).Named(ctx) }
	k.Delete = func(ctx context.Context, c *api.Client, state *M) error { return collection(c).Delete(ctx, id(state)) }
	if k.ExistingMatches == nil {
		k.ExistingMatches = func(ctx context.Context, c *api.Client, plan *M) []api.ExistingMatch {
			return collection(c).ExistingMatches(ctx, expand(plan))
		}
	}
	if k.Create == nil {
		k.Create = func(ctx context.Context, c *api.Client, _, plan *M) error {
			got, err := collection(c).Create(ctx, expand(plan))
			return record(plan, got, err)
		}
	}
	if k.Read == nil {
		k.Read = func(ctx context.Context, c *api.Client, state *M) error {
			got, err := collection(c).Get(ctx, id(state))
			return record(state, got, err)
		}
	}
	if k.Update == nil {
		k.Update = func(ctx context.Context, c *api.Client, _, state, plan *M) error {
			have, err := collection(c).Get(ctx, id(state))
			if err != nil {
				return err
			}
			got, err := collection(c).Update(ctx, have, expand(plan))
			return record(plan, got, err)
		}
	}
	return &k
}

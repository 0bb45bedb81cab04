package functions

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/near"
)

// gpuPools returns the pools that contain the given GPU types.
var gpuPools = &definition{
	name: "gpu_pools",
	definition: function.Definition{
		Summary: "GPU pools that hold GPU types",
		MarkdownDescription: "Returns the GPU pools that contain these GPU types, for `gpu.pools` of an endpoint. A pool may contain more types; exclude them with `gpu.excluded_types`.\n\n" +
			"It knows the types documented at the provider's release; any other is an error.",
		Parameters: []function.Parameter{
			function.ListParameter{
				Name: "type_ids", ElementType: types.StringType,
				MarkdownDescription: "Ids of GPU types, such as `NVIDIA L4`.",
			},
		},
		Return: function.SetReturn{ElementType: types.StringType},
	},
	run: func(ctx context.Context, args function.ArgumentsData) (any, *function.FuncError) {
		ids, err := stringsArgument(ctx, args, 0)
		if err != nil {
			return nil, err
		}
		pools := map[string]bool{}
		for i, id := range ids {
			pool := contract.PoolOf(id)
			switch {
			case !slices.Contains(contract.GPUTypeIDs, id):
				return nil, function.NewArgumentFuncError(0, fmt.Sprintf("element %d: expected the id of a GPU type, got %q%s",
					i, id, near.Suggest(id, contract.GPUTypeIDs)))
			case pool == "":
				return nil, function.NewArgumentFuncError(0, fmt.Sprintf("element %d: expected a GPU type of a serverless pool, got %q, which is in none", i, id))
			}
			pools[pool] = true
		}
		return slices.AppendSeq([]string{}, maps.Keys(pools)), nil
	},
}

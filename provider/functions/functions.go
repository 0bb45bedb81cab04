// Package functions holds the provider's functions. A function reads its arguments and the
// environment, but neither the provider block nor the API: Terraform calls it whenever it evaluates
// an expression.
package functions

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/big"
	"os"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract/startcmd"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/near"
)

// All lists the constructors of every function.
var All = []func() function.Function{
	gpuPools.constructor,
	parseImage.constructor,
	port.constructor,
	runURL.constructor,
	shellJoin.constructor,
}

type providerFunction struct {
	name       string
	definition function.Definition
	run        func(ctx context.Context, args function.ArgumentsData) (result any, err *function.FuncError)
}

func (d *providerFunction) constructor() function.Function { return d }

func (d *providerFunction) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = d.name
}

func (d *providerFunction) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = d.definition
}

func (d *providerFunction) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	result, err := d.run(ctx, req.Arguments)
	if err == nil {
		err = resp.Result.Set(ctx, result)
	}
	resp.Error = err
}

var gpuPools = &providerFunction{
	name: "gpu_pools",
	definition: function.Definition{
		Summary: "GPU pools that contain GPU types",
		MarkdownDescription: "Returns the GPU pools that contain these GPU types, for `gpu.pools` of an endpoint. A pool may contain more types; exclude them with `gpu.excluded_types`.\n\n" +
			"Only types that were documented at the provider's release are accepted.",
		Parameters: []function.Parameter{
			function.ListParameter{
				Name: "type_ids", ElementType: types.StringType,
				MarkdownDescription: "Ids of GPU types, such as `NVIDIA L4`.",
			},
		},
		Return: function.SetReturn{ElementType: types.StringType},
	},
	run: func(ctx context.Context, args function.ArgumentsData) (any, *function.FuncError) {
		ids, err := stringsArgument(ctx, args)
		if err != nil {
			return nil, err
		}
		pools := map[string]bool{}
		for i, id := range ids {
			pool := contract.PoolOf(id)
			switch {
			case !slices.Contains(contract.GPUTypeIDs, id):
				suggestion := strings.TrimSuffix(near.Suggest(id, contract.GPUTypeIDs), "?") // Terraform ends the sentence
				return nil, function.NewArgumentFuncError(0, fmt.Sprintf("element %d: expected the id of a GPU type, got %q%s", i, id, suggestion))
			case pool == "":
				return nil, function.NewArgumentFuncError(0, fmt.Sprintf("element %d: expected a GPU type of a serverless pool, got %q, which is in no pool", i, id))
			}
			pools[pool] = true
		}
		return slices.AppendSeq([]string{}, maps.Keys(pools)), nil
	},
}

// parseImage splits the reference of a container image.
var parseImage = &providerFunction{
	name: "parse_image",
	definition: function.Definition{
		Summary: "Registry, repository, tag and digest of a container image",
		MarkdownDescription: "Returns the parts of a reference to a container image, as container engines read it: an object with `registry` (`docker.io` if the reference names none), " +
			"`repository` (`library/nginx` for `nginx`), `tag` and `digest`. The last two are null if the reference has none.",
		Parameters: []function.Parameter{
			function.StringParameter{Name: "ref", MarkdownDescription: "Reference of the image, such as `ghcr.io/acme/worker:1.2`."},
		},
		Return: function.ObjectReturn{AttributeTypes: map[string]attr.Type{
			"registry": types.StringType, "repository": types.StringType, "tag": types.StringType, "digest": types.StringType,
		}},
	},
	run: func(ctx context.Context, args function.ArgumentsData) (any, *function.FuncError) {
		var text string
		if err := args.Get(ctx, &text); err != nil {
			return nil, err
		}
		named, err := reference.ParseNormalizedNamed(text)
		if err != nil {
			return nil, function.NewArgumentFuncError(0, fmt.Sprintf("expected the reference of a container image, such as ghcr.io/acme/worker:1.2, got %q: %s", text, err))
		}
		image := imageParts{Registry: reference.Domain(named), Repository: reference.Path(named)}
		if tagged, ok := named.(reference.Tagged); ok {
			image.Tag = new(tagged.Tag())
		}
		if pinned, ok := named.(reference.Digested); ok {
			image.Digest = new(pinned.Digest().String())
		}
		return image, nil
	},
}

type imageParts struct {
	Registry   string  `tfsdk:"registry"`
	Repository string  `tfsdk:"repository"`
	Tag        *string `tfsdk:"tag"`
	Digest     *string `tfsdk:"digest"`
}

// port formats a port for templates, endpoints and pods.
var port = &providerFunction{
	name: "port",
	definition: function.Definition{
		Summary:             "Element of a ports list, such as 8080/http",
		MarkdownDescription: "Returns `<number>/<protocol>`, the form of an element of `ports` in templates, endpoints and pods.",
		Parameters: []function.Parameter{
			function.NumberParameter{Name: "number", MarkdownDescription: "Number of the port, 1 to 65535."},
			function.StringParameter{Name: "protocol", MarkdownDescription: "`http` or `tcp`."},
		},
		Return: function.StringReturn{},
	},
	run: func(ctx context.Context, args function.ArgumentsData) (any, *function.FuncError) {
		var number *big.Float
		var protocol string
		if err := args.Get(ctx, &number, &protocol); err != nil {
			return nil, err
		}
		whole, accuracy := number.Int64()
		if accuracy != big.Exact || whole < 1 || whole > 65535 {
			return nil, function.NewArgumentFuncError(0, fmt.Sprintf("expected a whole number from 1 to 65535, got %s", number.Text('g', 20)))
		}
		if protocol != "http" && protocol != "tcp" {
			return nil, function.NewArgumentFuncError(1, fmt.Sprintf("expected \"http\" or \"tcp\", got %q", protocol))
		}
		return fmt.Sprintf("%d/%s", whole, protocol), nil
	},
}

// runURL returns the URL that accepts an endpoint's jobs.
var runURL = &providerFunction{
	name: "run_url",
	definition: function.Definition{
		Summary: "Address to which the jobs of an endpoint are sent",
		MarkdownDescription: "Returns the `/run` URL of an endpoint by its id. A `gpucloud_endpoint` has it in `request_urls`.\n\n" +
			"A function doesn't see the provider block: without `queue_url` it uses `GPUCLOUD_QUEUE_URL`, `GPUCLOUD_BASE_URL` or `GPUCLOUD_SERVICE`. Plan and apply need the same variables.",
		Parameters: []function.Parameter{
			function.StringParameter{Name: "endpoint_id", MarkdownDescription: "Id of the endpoint."},
		},
		VariadicParameter: function.StringParameter{
			Name:                "queue_url",
			MarkdownDescription: "Address of the job API, before `/v2`; at most one. Default: from the environment.",
		},
		Return: function.StringReturn{},
	},
	run: func(ctx context.Context, args function.ArgumentsData) (any, *function.FuncError) {
		var id string
		var queueURLs []string
		if err := args.Get(ctx, &id, &queueURLs); err != nil {
			return nil, err
		}
		if !api.ValidID(id) {
			return nil, function.NewArgumentFuncError(0, fmt.Sprintf("expected 1 to 128 letters, digits, - and _, got %q", id))
		}
		if len(queueURLs) > 1 {
			return nil, function.NewArgumentFuncError(2, fmt.Sprintf("expected an endpoint_id and at most one queue_url, got %d arguments", 1+len(queueURLs)))
		}
		service := os.Getenv("GPUCLOUD_SERVICE")
		address := cmp.Or(os.Getenv("GPUCLOUD_QUEUE_URL"), os.Getenv("GPUCLOUD_BASE_URL"), api.Services[service].QueueURL)
		switch {
		case len(queueURLs) == 1:
			address = queueURLs[0]
		case address == "" && service != "":
			return nil, function.NewFuncError(fmt.Sprintf("GPUCLOUD_SERVICE is %q: expected %s, or set GPUCLOUD_QUEUE_URL or GPUCLOUD_BASE_URL", service, strings.Join(slices.Sorted(maps.Keys(api.Services)), " or ")))
		case address == "":
			return nil, function.NewFuncError("the address of the job API is not known, as a function does not see the provider block: give queue_url as the second argument, or set GPUCLOUD_QUEUE_URL, GPUCLOUD_BASE_URL or GPUCLOUD_SERVICE in the environment")
		}
		url, err := api.RunURL(address, id)
		switch {
		case err == nil:
			return url, nil
		case len(queueURLs) == 1:
			return nil, function.NewArgumentFuncError(1, withoutPeriod(err))
		}
		return nil, function.NewFuncError("invalid GPUCLOUD_QUEUE_URL or GPUCLOUD_BASE_URL: " + withoutPeriod(err))
	},
}

// withoutPeriod returns the text of an error without its period, which Terraform adds.
func withoutPeriod(err error) string { return strings.TrimSuffix(err.Error(), ".") }

// shellJoin quotes arguments and joins them into one string for args.
var shellJoin = &providerFunction{
	name: "shell_join",
	definition: function.Definition{
		Summary: "Arguments joined into one string, quoted for a shell",
		MarkdownDescription: "Returns one string for `args` of templates, endpoints and pods, quoted so that it is split into exactly these arguments again. " +
			"`join(\" \", …)` does not quote: an argument with a blank would become two.",
		Parameters: []function.Parameter{
			function.ListParameter{
				Name: "argv", ElementType: types.StringType,
				MarkdownDescription: "The arguments, such as `[\"python\", \"-u\", \"my handler.py\"]`.",
			},
		},
		Return: function.StringReturn{},
	},
	run: func(ctx context.Context, args function.ArgumentsData) (any, *function.FuncError) {
		argv, err := stringsArgument(ctx, args)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(argv, func(word string) bool { return strings.ContainsRune(word, 0) }); i >= 0 {
			return nil, function.NewArgumentFuncError(0, fmt.Sprintf("element %d: expected an argument without NUL characters, which no process can get", i))
		}
		return startcmd.Join(argv), nil
	},
}

// stringsArgument reads the first argument, a list of strings, and rejects null elements.
func stringsArgument(ctx context.Context, args function.ArgumentsData) ([]string, *function.FuncError) {
	var list types.List
	if err := args.GetArgument(ctx, 0, &list); err != nil {
		return nil, err
	}
	out := make([]string, 0, len(list.Elements()))
	for i, element := range list.Elements() {
		if element.IsNull() {
			return nil, function.NewArgumentFuncError(0, fmt.Sprintf("element %d: expected a string, got null; leave it out, for example with compact()", i))
		}
		out = append(out, element.(types.String).ValueString())
	}
	return out, nil
}

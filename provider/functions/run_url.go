package functions

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// runURL returns the URL that accepts an endpoint's jobs.
var runURL = &definition{
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
			MarkdownDescription: "Address of the job API, before `/v2`; at most one. Defaults to the environment's.",
		},
		Return: function.StringReturn{},
	},
	run: func(ctx context.Context, args function.ArgumentsData) (any, *function.FuncError) {
		var id string
		var given []string
		if err := args.Get(ctx, &id, &given); err != nil {
			return nil, err
		}
		if !api.ValidID(id) {
			return nil, function.NewArgumentFuncError(0, fmt.Sprintf("expected letters, digits, - and _ only, got %q", id))
		}
		if len(given) > 1 {
			return nil, function.NewArgumentFuncError(2, fmt.Sprintf("expected an endpoint_id and at most one queue_url, got %d arguments", 1+len(given)))
		}
		address := cmp.Or(os.Getenv("GPUCLOUD_QUEUE_URL"), os.Getenv("GPUCLOUD_BASE_URL"), api.Services[os.Getenv("GPUCLOUD_SERVICE")].QueueURL)
		if len(given) == 1 {
			address = given[0]
		} else if address == "" {
			return nil, function.NewFuncError("the address of the job API is not known, as a function does not see the provider block: give queue_url as the second argument, or set GPUCLOUD_QUEUE_URL, GPUCLOUD_BASE_URL or GPUCLOUD_SERVICE in the environment")
		}
		url, err := api.RunURL(address, id)
		switch {
		case err == nil:
			return url, nil
		case len(given) == 1:
			return nil, function.NewArgumentFuncError(1, withoutPeriod(err))
		}
		return nil, function.NewFuncError("invalid GPUCLOUD_QUEUE_URL or GPUCLOUD_BASE_URL: " + withoutPeriod(err))
	},
}

// withoutPeriod returns the text of an error without its period, which Terraform adds.
func withoutPeriod(err error) string { return strings.TrimSuffix(err.Error(), ".") }

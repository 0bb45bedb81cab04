// Package functions holds the provider's functions, a file for each. A function sees only its
// arguments, neither the provider block nor the API, so that Terraform can call it whenever it
// evaluates an expression.
package functions

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"
)

// All lists the constructors of every function.
var All = []func() function.Function{
	gpuPools.constructor,
	parseImage.constructor,
	port.constructor,
	runURL.constructor,
	shellJoin.constructor,
}

// definition is a function with its documentation.
type definition struct {
	name       string
	definition function.Definition
	run        func(ctx context.Context, args function.ArgumentsData) (result any, err *function.FuncError)
}

func (d *definition) constructor() function.Function { return d }

func (d *definition) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = d.name
}

func (d *definition) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = d.definition
}

func (d *definition) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	result, err := d.run(ctx, req.Arguments)
	if err == nil {
		err = resp.Result.Set(ctx, result)
	}
	resp.Error = err
}

package functions

import (
	"context"
	"fmt"
	"math/big"

	"github.com/hashicorp/terraform-plugin-framework/function"
)

// port formats a port for templates, endpoints and pods.
var port = &definition{
	name: "port",
	definition: function.Definition{
		Summary:             "A port as ports of templates, endpoints and pods have it",
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

package functions

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract/startcmd"
)

// shellJoin quotes arguments and joins them into one string for args.
var shellJoin = &definition{
	name: "shell_join",
	definition: function.Definition{
		Summary: "One string of a list of arguments, quoted",
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
		argv, err := stringsArgument(ctx, args, 0)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(argv, func(word string) bool { return strings.ContainsRune(word, 0) }); i >= 0 {
			return nil, function.NewArgumentFuncError(0, fmt.Sprintf("element %d: expected an argument without NUL characters, which no process can get", i))
		}
		return startcmd.Join(argv), nil
	},
}

// stringsArgument reads a list of strings and rejects null elements.
func stringsArgument(ctx context.Context, args function.ArgumentsData, position int64) ([]string, *function.FuncError) {
	var list types.List
	if err := args.GetArgument(ctx, int(position), &list); err != nil {
		return nil, err
	}
	out := make([]string, 0, len(list.Elements()))
	for i, element := range list.Elements() {
		if element.IsNull() {
			return nil, function.NewArgumentFuncError(position, fmt.Sprintf("element %d: expected a string, got null; leave it out, for example with compact()", i))
		}
		out = append(out, element.(types.String).ValueString())
	}
	return out, nil
}

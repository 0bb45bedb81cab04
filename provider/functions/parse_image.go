package functions

import (
	"context"
	"fmt"

	"github.com/distribution/reference"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// parseImage splits the reference of a container image.
var parseImage = &definition{
	name: "parse_image",
	definition: function.Definition{
		Summary: "Registry, repository, tag and digest of a container image",
		MarkdownDescription: "Returns the parts of a reference to a container image, as container engines read it: an object with `registry` (`docker.io` where the reference names none), " +
			"`repository` (`library/nginx` for `nginx`), `tag` and `digest`. The last two are null where the reference has none.",
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
		image := image{Registry: reference.Domain(named), Repository: reference.Path(named)}
		if tagged, ok := named.(reference.Tagged); ok {
			image.Tag = new(tagged.Tag())
		}
		if pinned, ok := named.(reference.Digested); ok {
			image.Digest = new(pinned.Digest().String())
		}
		return image, nil
	},
}

type image struct {
	Registry   string  `tfsdk:"registry"`
	Repository string  `tfsdk:"repository"`
	Tag        *string `tfsdk:"tag"`
	Digest     *string `tfsdk:"digest"`
}

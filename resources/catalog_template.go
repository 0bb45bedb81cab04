package resources

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// catalogTemplates are the data sources of public templates. They reuse the parts of a
// template's kind from which its data sources are derived.
var catalogTemplates = &kit.Source[catalogTemplate]{
	Kind: &kit.Kind[catalogTemplate]{
		Name:   "catalog_template",
		Title:  "public template",
		Schema: catalogTemplateSchema,
		Objects: func(ctx context.Context, c *api.Client) ([]api.Named, error) {
			all, err := c.CatalogTemplates(ctx)
			out := make([]api.Named, len(all))
			for i, t := range all {
				out[i] = api.Named{ID: t.ID, Name: t.Name}
			}
			return out, err
		},
		Only: append([]planrule.OneVersion{{Version: api.V2, Attribute: "source", Except: []string{"official", "community"}, HandledByKind: true}}, templateOneVersion...),
		Read: func(ctx context.Context, c *api.Client, state *catalogTemplate) error {
			got, err := c.CatalogTemplate(ctx, state.ID.ValueString())
			if err != nil {
				return err
			}
			state.Source = value.KeepString(types.StringNull(), got.Source)
			state.flatten(got.Template)
			return nil
		},
	},
	Complete: func(m *catalogTemplate) { m.command().complete() },
	Omit:     append([]string{"registry", "public"}, configurationOnly...), // only the owner sees registry; public is always true
	Filters:  []string{"category", "image", "serverless", "source"},
}

type catalogTemplate struct {
	template
	Source types.String
}

var catalogTemplateSchema = func() schema.Schema {
	attributes := maps.Clone(templateSchema.Attributes)
	attributes["source"] = schema.StringAttribute{
		Computed: true, MarkdownDescription: "`official`, `verified` or `community`; API v1 shows `verified` ones as `community`.",
	}
	return schema.Schema{
		MarkdownDescription: "A public template, made by the operator or shared by a user; the catalog lists a hundred of each source at most. Only its owner can change it.",
		Attributes:          attributes,
	}
}()

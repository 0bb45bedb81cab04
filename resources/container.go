package resources

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// The container settings are those that templates and endpoints share
// (v2 document: ContainerConfig).

func argsAttribute(more string) schema.StringAttribute {
	return schema.StringAttribute{
		Optional: true,
		MarkdownDescription: "Arguments for the container's entrypoint, as one string. " +
			"Quote an argument that has blanks as a shell would: `python -u \"my handler.py\"`." + more,
	}
}

func envAttribute(more string) schema.MapAttribute {
	return schema.MapAttribute{
		ElementType: types.StringType,
		Optional:    true,
		MarkdownDescription: "Environment variables. Wrap a secret in `sensitive()` to keep it out of Terraform's output; " +
			"the state holds it either way." + more,
		Validators: []validator.Map{noNulls{}, mapvalidator.KeysAre(variableName), mapvalidator.ValueStringsAre(variableValue)},
	}
}

func portsAttribute(more string) schema.SetAttribute {
	return schema.SetAttribute{
		ElementType:         types.StringType,
		Optional:            true,
		MarkdownDescription: "Exposed ports, each `<1..65535>/<http|tcp>`." + more,
		Validators:          []validator.Set{noNulls{}, setvalidator.ValueStringsAre(portRule)},
	}
}

func registryAttribute(more string) schema.StringAttribute {
	return schema.StringAttribute{
		Optional:            true,
		MarkdownDescription: "Id of the registry auth for a private image." + more,
	}
}

func cudaVersionsAttribute(text string) schema.SetAttribute {
	return schema.SetAttribute{
		ElementType:         types.StringType,
		Optional:            true,
		MarkdownDescription: text,
		Validators:          []validator.Set{noNulls{}, setvalidator.ValueStringsAre(cudaVersion)},
	}
}

const defaultDisk = 50 // GB; description: Template, containerDiskInGb

var atLeastOne = []validator.Int64{atLeast[int64](1)}

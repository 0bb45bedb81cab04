package jobrun

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Attribute is an argument of a job. Ephemeral resources and actions have different schema
// types, so each converts it.
type Attribute struct {
	Name, Description string
	Type              attr.Type   // unless it is an object
	Members           []Attribute // of an object
	Required          bool
	Secret            bool
}

// EndpointID describes the id of an endpoint that takes jobs.
const EndpointID = "Id of an endpoint of type `QUEUE`."

var Attributes = []Attribute{
	{Name: "endpoint_id", Type: types.StringType, Required: true, Description: EndpointID},
	{Name: "input", Type: types.StringType, Required: true, Description: "Input of the job, a JSON object: use `jsonencode()`."},
	{Name: "timeout", Type: types.StringType, Description: "How long to wait for the job, worker starts included; default `10m`. Then the job is cancelled."},
	{Name: "policy", Description: "Limits that the deployment applies to the job.", Members: []Attribute{
		{Name: "execution_timeout", Type: types.Int64Type, Description: "Longest execution in milliseconds, 5000 to 604800000; default: the endpoint's."},
		{Name: "ttl", Type: types.Int64Type, Description: "Milliseconds until the job is deleted in any state, 10000 to 604800000. Default: `timeout` plus one minute."},
		{Name: "low_priority", Type: types.BoolType, Description: "If true, the job waits for a running worker and starts none. Defaults to false."},
	}},
	{Name: "webhook", Type: types.StringType, Secret: true, Description: "URL that is called when the job has ended."},
	{Name: "s3_config", Description: "Object storage for the handler.", Members: []Attribute{
		{Name: "access_id", Type: types.StringType, Description: "Id of the access key."},
		{Name: "access_secret", Type: types.StringType, Secret: true, Description: "The access key itself."},
		{Name: "bucket_name", Type: types.StringType, Description: "Name of the bucket."},
		{Name: "endpoint_url", Type: types.StringType, Description: "URL of a storage that is compatible with S3."},
	}},
}

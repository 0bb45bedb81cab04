package clauses

import "github.com/gpucloud/terraform-provider-gpucloud/conformance/report"

// Documents are the documents that the clauses come from, with the dates of our copies. The
// service description has no date.
var Documents = []report.Document{
	{Name: "service description"},
	{Name: "OpenAPI document of version 1", Version: "0.1.0", Date: "2026-08"},
	{Name: "OpenAPI document of version 2", Version: "2.0.0", Date: "2026-08-18"},
}

package cases

import "github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"

var webhooks = []suite.Case{}

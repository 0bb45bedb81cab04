package page

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
)

// Costs are the deployment's costs today, in dollars, at the catalog's prices.
type Costs struct {
	Endpoints []EndpointCost `json:"endpoints"`
	Volumes   catalog.USD    `json:"volumes"`
	Pods      catalog.USD    `json:"pods"`
	Clusters  catalog.USD    `json:"clusters"`
	Total     catalog.USD    `json:"total"`
}

// EndpointCost is the cost of an endpoint, which may be deleted.
type EndpointCost struct {
	Endpoint string      `json:"endpoint"` // id
	Time     int64       `json:"time"`     // time of its workers
	Compute  catalog.USD `json:"compute"`
	Disk     catalog.USD `json:"disk"`
	Total    catalog.USD `json:"total"`
}

// costsAge is the maximum age of the shown costs, because each sum reads all usage of the day.
const costsAge = 3 * time.Second

package page

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
)

// Costs are what the deployment would have cost today, in dollars.
type Costs struct {
	Endpoints []EndpointCost `json:"endpoints"`
	Volumes   catalog.USD    `json:"volumes"`
	Pods      catalog.USD    `json:"pods"`
	Clusters  catalog.USD    `json:"clusters"`
	Total     catalog.USD    `json:"total"`
}

// EndpointCost is that of an endpoint, which may be deleted.
type EndpointCost struct {
	Endpoint string      `json:"endpoint"` // id
	Time     int64       `json:"time"`     // of its workers
	Compute  catalog.USD `json:"compute"`
	Disk     catalog.USD `json:"disk"`
	Total    catalog.USD `json:"total"`
}

// costsAge is how old the costs that the page shows may be: each sum reads all
// that ran today.
const costsAge = 3 * time.Second

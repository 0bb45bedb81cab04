package page

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/billing"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
)

// Costs are what the deployment would have cost today.
type Costs struct {
	Endpoints               []EndpointCost
	Volumes, Pods, Clusters catalog.USD
}

// EndpointCost is that of an endpoint, which may be deleted.
type EndpointCost struct {
	Endpoint string // id
	Time     time.Duration
	Cost     billing.Cost
}

// costsAge is how old the costs that the page shows may be: each sum reads all
// that ran today.
const costsAge = 3 * time.Second

// In the page's JSON amounts are dollars.
type (
	costsJSON struct {
		Endpoints []endpointCostJSON `json:"endpoints"`
		Volumes   catalog.USD        `json:"volumes"`
		Pods      catalog.USD        `json:"pods"`
		Clusters  catalog.USD        `json:"clusters"`
		Total     catalog.USD        `json:"total"`
	}
	endpointCostJSON struct {
		Endpoint string      `json:"endpoint"`
		Time     int64       `json:"time"`
		Compute  catalog.USD `json:"compute"`
		Disk     catalog.USD `json:"disk"`
		Total    catalog.USD `json:"total"`
	}
)

func describeCosts(c Costs) costsJSON {
	out := costsJSON{Endpoints: []endpointCostJSON{}, Volumes: c.Volumes, Pods: c.Pods, Clusters: c.Clusters, Total: c.Volumes + c.Pods + c.Clusters}
	for _, e := range c.Endpoints {
		out.Endpoints = append(out.Endpoints, endpointCostJSON{e.Endpoint, e.Time.Milliseconds(), e.Cost.GPU + e.Cost.CPU, e.Cost.Disk, e.Cost.Total()})
		out.Total += e.Cost.Total()
	}
	return out
}

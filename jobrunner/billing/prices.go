package billing

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"

// Compute is the compute of a worker, a pod or a node of a cluster.
type Compute struct {
	GPU   string // type; "" if it has CPUs
	GPUs  int64
	CPU   string // flavor
	VCPUs int64
	Disk  int64 // GB
	Cloud string
	Spot  bool // the pod may be interrupted
}

// ForWorker returns an endpoint's worker at the prices of a catalog. The rate of its GPUs or
// CPUs includes the serverless fee.
func ForWorker(offered *catalog.Catalog, id, endpoint string, c Compute) Resource {
	r := Resource{Kind: Worker, ID: id, Owner: endpoint, GPUType: c.GPU, Disk: c.Disk}
	r.Rates.Disk = Monthly(offered.Storage.Disk, c.Disk)
	fee := Hourly(offered.Fees.Serverless, 1)
	if c.GPU != "" {
		r.Rates.GPU = Hourly(offered.OfferOf(c.GPU).Price.Serverless, c.GPUs) + fee
	} else {
		r.Rates.CPU = Hourly(offered.CPUPriceOf(c.CPU).Serverless, c.VCPUs) + fee
	}
	return r
}

// ForPod returns a pod at the prices of a catalog.
func ForPod(offered *catalog.Catalog, id string, c Compute) Resource {
	r := Resource{Kind: Pod, ID: id, Owner: id, GPUType: c.GPU, Disk: c.Disk}
	r.Rates.Disk = Monthly(offered.Storage.Disk, c.Disk)
	if c.GPU != "" {
		r.Rates.GPU = Hourly(offered.OfferOf(c.GPU).PodPrice(c.Cloud, c.Spot), c.GPUs)
	} else {
		r.Rates.CPU = Hourly(offered.CPUPriceOf(c.CPU).Secure, c.VCPUs)
	}
	return r
}

// ForCluster returns a cluster of equal nodes at the prices of a catalog.
func ForCluster(offered *catalog.Catalog, id string, nodes int64, c Compute) Resource {
	return Resource{
		Kind: Cluster, ID: id, Owner: id, GPUType: c.GPU, Disk: c.Disk * nodes,
		Rates: Rates{
			GPU:        Hourly(offered.OfferOf(c.GPU).PodPrice(c.Cloud, false), c.GPUs*nodes),
			Disk:       Monthly(offered.Storage.Disk, c.Disk*nodes),
			Networking: Hourly(offered.Fees.Networking, nodes),
		},
	}
}

// ForVolume returns a network volume at the prices of a catalog.
func ForVolume(offered *catalog.Catalog, id, tier, dataCenter string, size int64) Resource {
	r := Resource{Kind: Volume, ID: id, Owner: id, DataCenters: []string{dataCenter}, Disk: size}
	price := Monthly(offered.Storage.Volume(tier), size)
	if tier == catalog.HighPerformance {
		r.Rates.HighPerformance = price
	} else {
		r.Rates.Standard = price
	}
	r.HighPerformance = tier == catalog.HighPerformance
	return r
}

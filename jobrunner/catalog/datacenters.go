package catalog

import (
	"fmt"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
)

// DataCenter is a location.
type DataCenter struct {
	ID            string
	Name          string
	Region        string
	Country       string   // ISO 3166-1 alpha-2
	VolumeTypes   []string // tiers of network volumes that it has
	Compliance    []string // certificates
	GlobalNetwork bool
}

// builtinDataCenters are those of the contract. The deployment's one machine stands in for
// all of them: each has both tiers of network volumes and the global network of pods, and
// none has certificates.
func builtinDataCenters() (out []DataCenter) {
	for _, d := range contract.DataCenters {
		out = append(out, DataCenter{ID: d.ID, Name: d.Name, Region: d.Region, Country: d.Country, VolumeTypes: VolumeTypes, GlobalNetwork: true})
	}
	return out
}

// Regions are all regions of the contract.
var Regions = contract.Body{API: contract.V2, Resource: "dataCenter", Use: contract.Read}.At("region").Enum

// Certificates are all compliance certificates of the contract.
var Certificates = contract.Body{API: contract.V2, Resource: "dataCenter", Use: contract.Read}.At("compliance").Enum

// The tiers of network volumes.
const (
	Standard        = "STANDARD"
	HighPerformance = "HIGH_PERFORMANCE"
)

// VolumeTypes are the tiers of network volumes, the default first.
var VolumeTypes = []string{Standard, HighPerformance}

// VolumeTier is the tier of a new network volume in a data center; wanted is "" for
// the data center's own. The error says, for people, why there can be none.
func (c *Catalog) VolumeTier(dataCenter, wanted string) (tier string, err error) {
	d, known := c.DataCenterByID(dataCenter)
	switch {
	case c.closed[dataCenter]:
		return "", fmt.Errorf("the data center %q is not offered", dataCenter)
	case !known: // an open list
		d.VolumeTypes = VolumeTypes
	case len(d.VolumeTypes) == 0:
		return "", fmt.Errorf("the data center %q has no network volumes", dataCenter)
	}
	if wanted == "" {
		return d.VolumeTypes[0], nil
	}
	if !slices.Contains(d.VolumeTypes, wanted) {
		return "", fmt.Errorf("the data center %q has no network volumes of the type %s", dataCenter, wanted)
	}
	return wanted, nil
}

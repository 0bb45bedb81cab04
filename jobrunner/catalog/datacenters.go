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
	VolumeTypes   []string // its tiers of network volumes
	Compliance    []string // certificates
	GlobalNetwork bool
}

// builtinDataCenters returns the data centers of the contract. The deployment's one machine stands for
// all of them: each has both tiers of network volumes and the global network of pods, but no
// certificates.
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

// VolumeTier returns the tier of a new network volume in a data center. If requested is "", it is the
// data center's default. The error says, for people, why it is impossible.
func (c *Catalog) VolumeTier(dataCenter, requested string) (tier string, err error) {
	d, known := c.DataCenterByID(dataCenter)
	switch {
	case c.closed[dataCenter]:
		return "", fmt.Errorf("the data center %q is not offered", dataCenter)
	case !known: // data centers are an open list
		d.VolumeTypes = VolumeTypes
	case len(d.VolumeTypes) == 0:
		return "", fmt.Errorf("the data center %q has no network volumes", dataCenter)
	}
	if requested == "" {
		return d.VolumeTypes[0], nil
	}
	if !slices.Contains(d.VolumeTypes, requested) {
		return "", fmt.Errorf("the data center %q has no network volumes of the type %s", dataCenter, requested)
	}
	return requested, nil
}

package catalog

import (
	"fmt"
	"slices"
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

// located is a data center that is built in. The deployment's one machine
// stands in for all of them: each has both tiers of network volumes and the global
// network of pods, and none has certificates.
func located(id, name, region, country string) DataCenter {
	return DataCenter{ID: id, Name: name, Region: region, Country: country, VolumeTypes: VolumeTypes, GlobalNetwork: true}
}

// The regions of the known data centers.
const (
	northAmerica = "NORTH_AMERICA"
	europe       = "EUROPE"
	asia         = "ASIA"
	oceania      = "OCEANIA"
)

// Regions are all regions of the contract.
var Regions = []string{
	northAmerica, "SOUTH_AMERICA", europe, asia, "MIDDLE_EAST", "AFRICA", oceania, "ANTARCTICA", "UNKNOWN",
}

// Certificates are all compliance certificates of the contract.
var Certificates = []string{
	"GDPR", "ISO_IEC_27001", "ISO_14001", "PCI_DSS", "HITRUST", "SOC_1_TYPE_2", "SOC_2_TYPE_2", "SOC_3_TYPE_2",
	"ITAR", "FISMA_HIGH", "HIPAA", "RENEWABLE",
}

// The tiers of network volumes.
const (
	Standard        = "STANDARD"
	HighPerformance = "HIGH_PERFORMANCE"
)

// VolumeTypes are the tiers of network volumes, the default first.
var VolumeTypes = []string{Standard, HighPerformance}

// DataCenters are those that are built in.
var DataCenters = []DataCenter{
	located("EU-RO-1", "EU Romania 1", europe, "RO"),
	located("CA-MTL-1", "CA Montreal 1", northAmerica, "CA"),
	located("EU-SE-1", "EU Sweden 1", europe, "SE"),
	located("US-IL-1", "US Illinois 1", northAmerica, "US"),
	located("EUR-IS-1", "EUR Iceland 1", europe, "IS"),
	located("EU-CZ-1", "EU Czechia 1", europe, "CZ"),
	located("US-TX-3", "US Texas 3", northAmerica, "US"),
	located("EUR-IS-2", "EUR Iceland 2", europe, "IS"),
	located("US-KS-2", "US Kansas 2", northAmerica, "US"),
	located("US-GA-2", "US Georgia 2", northAmerica, "US"),
	located("US-WA-1", "US Washington 1", northAmerica, "US"),
	located("US-TX-1", "US Texas 1", northAmerica, "US"),
	located("CA-MTL-3", "CA Montreal 3", northAmerica, "CA"),
	located("EU-NL-1", "EU Netherlands 1", europe, "NL"),
	located("US-TX-4", "US Texas 4", northAmerica, "US"),
	located("US-CA-2", "US California 2", northAmerica, "US"),
	located("US-NC-1", "US North Carolina 1", northAmerica, "US"),
	located("OC-AU-1", "OC Australia 1", oceania, "AU"),
	located("US-DE-1", "US Delaware 1", northAmerica, "US"),
	located("EUR-IS-3", "EUR Iceland 3", europe, "IS"),
	located("CA-MTL-2", "CA Montreal 2", northAmerica, "CA"),
	located("AP-JP-1", "AP Japan 1", asia, "JP"),
	located("EUR-NO-1", "EUR Norway 1", europe, "NO"),
	located("EU-FR-1", "EU France 1", europe, "FR"),
	located("US-KS-3", "US Kansas 3", northAmerica, "US"),
	located("US-GA-1", "US Georgia 1", northAmerica, "US"),
}

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

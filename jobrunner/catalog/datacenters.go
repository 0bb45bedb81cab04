package catalog

// DataCenter is a location. The deployment's one machine stands in for all of
// them: each has both tiers of network volumes, and none has certificates or a
// global network.
type DataCenter struct {
	ID      string
	Name    string
	Region  string
	Country string // ISO 3166-1 alpha-2
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

// VolumeTypes are the tiers of network volumes, the default first.
var VolumeTypes = []string{"STANDARD", "HIGH_PERFORMANCE"}

// DataCenters are the known data centers.
var DataCenters = []DataCenter{
	{"EU-RO-1", "EU Romania 1", europe, "RO"},
	{"CA-MTL-1", "CA Montreal 1", northAmerica, "CA"},
	{"EU-SE-1", "EU Sweden 1", europe, "SE"},
	{"US-IL-1", "US Illinois 1", northAmerica, "US"},
	{"EUR-IS-1", "EUR Iceland 1", europe, "IS"},
	{"EU-CZ-1", "EU Czechia 1", europe, "CZ"},
	{"US-TX-3", "US Texas 3", northAmerica, "US"},
	{"EUR-IS-2", "EUR Iceland 2", europe, "IS"},
	{"US-KS-2", "US Kansas 2", northAmerica, "US"},
	{"US-GA-2", "US Georgia 2", northAmerica, "US"},
	{"US-WA-1", "US Washington 1", northAmerica, "US"},
	{"US-TX-1", "US Texas 1", northAmerica, "US"},
	{"CA-MTL-3", "CA Montreal 3", northAmerica, "CA"},
	{"EU-NL-1", "EU Netherlands 1", europe, "NL"},
	{"US-TX-4", "US Texas 4", northAmerica, "US"},
	{"US-CA-2", "US California 2", northAmerica, "US"},
	{"US-NC-1", "US North Carolina 1", northAmerica, "US"},
	{"OC-AU-1", "OC Australia 1", oceania, "AU"},
	{"US-DE-1", "US Delaware 1", northAmerica, "US"},
	{"EUR-IS-3", "EUR Iceland 3", europe, "IS"},
	{"CA-MTL-2", "CA Montreal 2", northAmerica, "CA"},
	{"AP-JP-1", "AP Japan 1", asia, "JP"},
	{"EUR-NO-1", "EUR Norway 1", europe, "NO"},
	{"EU-FR-1", "EU France 1", europe, "FR"},
	{"US-KS-3", "US Kansas 3", northAmerica, "US"},
	{"US-GA-1", "US Georgia 1", northAmerica, "US"},
}

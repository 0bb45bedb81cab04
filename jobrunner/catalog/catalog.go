// Package catalog has the offers of a deployment: GPU types, their pools, CPU flavors, data centers,
// prices and stock. The built-in catalog has the hardware and locations of the contract, with a price
// of 0: a user's own machine costs nothing. A file can add, change and remove entries (file.go), and
// is read again when it changes (source.go).
//
// The lists of ids are open: an id that is missing here isn't rejected.
package catalog

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
)

// Catalog is the state of the offers at a moment. It is immutable.
type Catalog struct {
	GPUs        []GPU
	Pools       []Pool
	CPUs        []CPU
	DataCenters []DataCenter
	Storage     StoragePrices
	Fees        Fees

	builds            map[string][]Build  // by the endpoint's name
	offers            map[string]Offer    // by GPU type in the file
	cpuPrices         map[string]CPUPrice // by CPU flavor
	removedGPUs       map[string]bool     // GPU types that the file removes, even if the machine has them
	closedDataCenters map[string]bool     // data centers that the file removes: nothing is placed there
	stock             []stockRule         // the current rules, the latest last
}

var builtin = &Catalog{GPUs: contract.GPUTypes, Pools: contract.Pools, CPUs: contract.CPUFlavors, DataCenters: builtinDataCenters()}

// Builtin returns the catalog of a deployment without a file.
func Builtin() *Catalog { return builtin }

// Stock is the machine's stock of one GPU type.
type Stock struct {
	Count        int64    // free GPUs
	CUDAVersions []string // reported by its driver
	Memory       int64    // GB of one GPU
}

// GPUsWith returns the catalog's GPU types, followed by the machine's other types, which are sorted by id.
func (c *Catalog) GPUsWith(stock map[string]Stock) []GPU {
	gpus := slices.Clone(c.GPUs)
	for _, id := range slices.Sorted(maps.Keys(stock)) {
		if _, ok := c.GPUByID(id); !ok && !c.removedGPUs[id] {
			gpus = append(gpus, GPU{ID: id, Name: displayName(id), Manufacturer: nvidia, Memory: stock[id].Memory})
		}
	}
	return gpus
}

func displayName(id string) string { return strings.TrimPrefix(id, "NVIDIA ") }

func (c *Catalog) PoolByID(id string) (Pool, bool) { return find(c.Pools, id, poolID) }

func (c *Catalog) GPUByID(id string) (GPU, bool) { return find(c.GPUs, id, gpuID) }

func (c *Catalog) CPUByID(id string) (CPU, bool) { return find(c.CPUs, id, cpuID) }

func (c *Catalog) DataCenterByID(id string) (DataCenter, bool) {
	return find(c.DataCenters, id, dataCenterID)
}

func find[T any](entries []T, id string, key func(T) string) (found T, ok bool) {
	i := slices.IndexFunc(entries, func(t T) bool { return key(t) == id })
	if i < 0 {
		return found, false
	}
	return entries[i], true
}

func (c *Catalog) PoolOf(typeID string) string {
	for _, p := range c.Pools {
		if slices.Contains(p.Types, typeID) {
			return p.ID
		}
	}
	return ""
}

// TypesIn returns the GPU types of the known pools without the excluded ones, pool by pool.
func (c *Catalog) TypesIn(pools, excluded []string) []string {
	types := []string{}
	for _, id := range pools {
		pool, _ := c.PoolByID(id)
		for _, t := range pool.Types {
			if !slices.Contains(excluded, t) && !slices.Contains(types, t) {
				types = append(types, t)
			}
		}
	}
	return types
}

// SelectPools returns the fewest pools that contain the GPU types, in the order of the types, and the other
// types of these pools as exclusions. It ignores types in no pool.
func (c *Catalog) SelectPools(typeIDs []string) (pools, excluded []string) {
	pools, excluded = []string{}, []string{}
	for _, t := range typeIDs {
		if p := c.PoolOf(t); p != "" && !slices.Contains(pools, p) {
			pools = append(pools, p)
		}
	}
	for _, t := range c.TypesIn(pools, nil) {
		if !slices.Contains(typeIDs, t) {
			excluded = append(excluded, t)
		}
	}
	return pools, excluded
}

// Pool is a serverless GPU pool of management API v2.
type Pool = contract.Pool

type GPU = contract.GPUType

const (
	nvidia = "NVIDIA"
	amd    = "AMD"
)

// MaxGPUs is the maxCount of a built-in GPU type: the usual size of a large machine, not of this one.
const MaxGPUs = 8

type CPU = contract.CPUFlavor

// unknownRAM is the assumed memory of an unknown flavor.
const unknownRAM = 2 // GB per vCPU

// CPUMemory returns the memory of a configuration in GB, at least 1.
func (c *Catalog) CPUMemory(flavorID string, vcpus int64) int64 {
	perVCPU := float64(unknownRAM)
	if f, ok := c.CPUByID(flavorID); ok {
		perVCPU = f.RAMGBPerVCPU
	}
	return int64(min(max(1, math.Round(perVCPU*float64(vcpus))), 1<<53))
}

type DataCenter struct {
	ID            string
	Name          string
	Region        string
	Country       string   // ISO 3166-1 alpha-2
	VolumeTypes   []string // its tiers of network volumes
	Compliance    []string // certificates
	GlobalNetwork bool
}

// builtinDataCenters returns the data centers of the contract. The deployment's one machine stands for all
// of them: each has both tiers of network volumes and the global network of pods, but no certificates.
func builtinDataCenters() (out []DataCenter) {
	for _, d := range contract.DataCenters {
		out = append(out, DataCenter{ID: d.ID, Name: d.Name, Region: d.Region, Country: d.Country, VolumeTypes: VolumeTypes, GlobalNetwork: true})
	}
	return out
}

var Regions = contract.Body{API: contract.V2, Resource: "dataCenter", Use: contract.Read}.At("region").Enum

var Certificates = contract.Body{API: contract.V2, Resource: "dataCenter", Use: contract.Read}.At("compliance").Enum

const (
	Standard        = "STANDARD"
	HighPerformance = "HIGH_PERFORMANCE"
)

// VolumeTypes are the tiers of network volumes, the default first.
var VolumeTypes = []string{Standard, HighPerformance}

// VolumeTier returns the tier of a new network volume in a data center. If requested is "", it is the
// data center's default. The error tells users why the data center can't have such a volume.
func (c *Catalog) VolumeTier(dataCenter, requested string) (tier string, err error) {
	d, known := c.DataCenterByID(dataCenter)
	switch {
	case c.closedDataCenters[dataCenter]:
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

// CompareCUDA compares versions as numbers: 12.11 is above 12.2. A missing or invalid part counts as
// 0, and an overflow as the largest number.
func CompareCUDA(a, b string) int {
	x, y := parseVersion(a), parseVersion(b)
	return slices.Compare(x[:], y[:])
}

func parseVersion(version string) (out [2]uint64) {
	major, minor, _ := strings.Cut(version, ".")
	out[0], _ = strconv.ParseUint(major, 10, 64)
	out[1], _ = strconv.ParseUint(minor, 10, 64)
	return out
}

// USD is an amount in billionths of a US dollar, so that sums are exact.
type USD int64

// decimalScale is the scale of USD and of other decimals of a catalog file.
const decimalScale = 1_000_000_000

// String formats the amount in dollars, with as many decimals as it needs.
func (u USD) String() string {
	sign, n := "", uint64(u)
	if u < 0 {
		sign, n = "-", -n
	}
	text := fmt.Sprintf("%s%d.%09d", sign, n/decimalScale, n%decimalScale)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

func (u USD) MarshalJSON() ([]byte, error) { return []byte(u.String()), nil }

// decimalForm matches up to six digits before the point and nine after it.
var decimalForm = regexp.MustCompile(`^(\d{1,6})(?:\.(\d{1,9}))?$`)

// parseDecimal parses a number and returns it in billionths, the unit of USD.
func parseDecimal(text string) (billionths int64, ok bool) {
	parts := decimalForm.FindStringSubmatch(text)
	if parts == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(parts[1]+(parts[2] + "000000000")[:9], 10, 64)
	return n, err == nil
}

const (
	Secure    = "SECURE"
	Community = "COMMUNITY"
)

// Clouds are both clouds, the default first.
var Clouds = []string{Secure, Community}

type Offer struct {
	Price    GPUPrice
	MaxCount map[string]int64 // GPUs of one machine, by cloud; a missing cloud doesn't offer the type
	// CUDAVersions are shown if this machine lacks the type. If it has the type, its driver's versions are shown.
	CUDAVersions []string
}

// GPUPrice is the price of one GPU per hour.
type GPUPrice struct {
	Pod        map[string]USD // by cloud
	Spot       map[string]USD // of an interruptible pod, by cloud; if missing, as Pod
	Serverless USD
}

var builtinOffer = Offer{MaxCount: map[string]int64{Secure: MaxGPUs, Community: MaxGPUs}}

// OfferOf returns the offer of a GPU type. Unknown types cost nothing.
func (c *Catalog) OfferOf(gpu string) Offer {
	if o, ok := c.offers[gpu]; ok {
		return o
	}
	return builtinOffer
}

func (o Offer) PodPrice(cloud string, spot bool) USD {
	if price, ok := o.Price.Spot[cloud]; spot && ok {
		return price
	}
	return o.Price.Pod[cloud]
}

// CPUPrice is the price of one vCPU per hour.
type CPUPrice struct{ Secure, Serverless USD }

// CPUPriceOf returns the price of a vCPU of a flavor. Unknown flavors cost nothing.
func (c *Catalog) CPUPriceOf(flavor string) CPUPrice { return c.cpuPrices[flavor] }

// StoragePrices are the prices of one GB for a month of 730 hours.
type StoragePrices struct {
	Standard, HighPerformance USD // network volumes
	Disk                      USD // disks of workers, pods and clusters, while they run
}

// Fees are hourly charges in addition to compute and storage.
type Fees struct {
	Serverless USD // per worker
	Networking USD // per node of a cluster
}

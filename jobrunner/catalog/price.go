package catalog

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// USD is an amount in billionths of a US dollar, so that sums are exact.
type USD int64

const perDollar = 1_000_000_000

// String formats the amount in dollars, with as many decimals as it needs.
func (u USD) String() string {
	sign, n := "", uint64(u)
	if u < 0 {
		sign, n = "-", -n
	}
	text := fmt.Sprintf("%s%d.%09d", sign, n/perDollar, n%perDollar)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// MarshalJSON encodes the amount as a number of dollars.
func (u USD) MarshalJSON() ([]byte, error) { return []byte(u.String()), nil }

// priceForm matches up to six digits before the point and nine after it.
var priceForm = regexp.MustCompile(`^(\d{1,6})(?:\.(\d{1,9}))?$`)

// parsePrice parses an exact amount in dollars.
func parsePrice(text string) (USD, bool) {
	form := priceForm.FindStringSubmatch(text)
	if form == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(form[1]+(form[2] + "000000000")[:9], 10, 64)
	return USD(n), err == nil
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
	// CUDAVersions are the versions on machines that only the file lists.
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

func (s StoragePrices) Volume(tier string) USD {
	if tier == HighPerformance {
		return s.HighPerformance
	}
	return s.Standard
}

// Fees are hourly charges in addition to compute and storage.
type Fees struct {
	Serverless USD // per worker
	Networking USD // per node of a cluster
}

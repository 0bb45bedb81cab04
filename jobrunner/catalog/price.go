package catalog

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// USD is an amount of US dollars, in billionths: sums of it are exact.
type USD int64

const perDollar = 1_000_000_000

// String writes the amount in dollars, with as many decimals as it has.
func (u USD) String() string {
	sign, n := "", uint64(u)
	if u < 0 {
		sign, n = "-", -n
	}
	text := fmt.Sprintf("%s%d.%09d", sign, n/perDollar, n%perDollar)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// MarshalJSON writes the amount as a number, in dollars.
func (u USD) MarshalJSON() ([]byte, error) { return []byte(u.String()), nil }

// priceForm has at most six digits before the point and nine behind it.
var priceForm = regexp.MustCompile(`^(\d{1,6})(?:\.(\d{1,9}))?$`)

// parsePrice reads dollars, exactly.
func parsePrice(text string) (USD, bool) {
	form := priceForm.FindStringSubmatch(text)
	if form == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(form[1]+(form[2] + "000000000")[:9], 10, 64)
	return USD(n), err == nil
}

// The clouds of pods.
const (
	Secure    = "SECURE"
	Community = "COMMUNITY"
)

// Clouds are both clouds, the default first.
var Clouds = []string{Secure, Community}

// Offer is how a GPU type is rented.
type Offer struct {
	Price    GPUPrice
	MaxCount map[string]int64 // GPUs of one machine, by cloud; a cloud that is absent doesn't offer the type
	// CUDAVersions are those of machines that only the file has.
	CUDAVersions []string
}

// GPUPrice is what one GPU costs in an hour.
type GPUPrice struct {
	Pod        map[string]USD // by cloud
	Spot       map[string]USD // of an interruptible pod, by cloud; absent: that of others
	Serverless USD
}

var builtinOffer = Offer{MaxCount: map[string]int64{Secure: MaxGPUs, Community: MaxGPUs}}

// OfferOf is how a GPU type is rented. What the catalog doesn't know costs
// nothing.
func (c *Catalog) OfferOf(gpu string) Offer {
	if o, ok := c.offers[gpu]; ok {
		return o
	}
	return builtinOffer
}

// PodPrice is what a GPU of a pod costs in an hour.
func (o Offer) PodPrice(cloud string, spot bool) USD {
	if price, ok := o.Price.Spot[cloud]; spot && ok {
		return price
	}
	return o.Price.Pod[cloud]
}

// CPUPrice is what one vCPU costs in an hour.
type CPUPrice struct{ Secure, Serverless USD }

// CPUPriceOf is what a vCPU of a flavour costs. One that the catalog doesn't know
// costs nothing.
func (c *Catalog) CPUPriceOf(flavor string) CPUPrice { return c.cpuPrices[flavor] }

// StoragePrices are what one GB costs in a month of 730 hours.
type StoragePrices struct {
	Standard, HighPerformance USD // network volumes
	Disk                      USD // disks of workers, pods and clusters, while they run
}

// Volume is the price of a tier of network volumes.
func (s StoragePrices) Volume(tier string) USD {
	if tier == HighPerformance {
		return s.HighPerformance
	}
	return s.Standard
}

// Fees are what is charged beside compute and storage, by the hour.
type Fees struct {
	Serverless USD // for each worker
	Networking USD // for each node of a cluster
}

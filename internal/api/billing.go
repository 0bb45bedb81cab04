package api

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// Bill is the cost of objects in a period. It omits records that contain only zeros, which some
// deployments return for every object and bucket. Amounts are USD, as the decimal text of the
// answer: nothing is rounded.
type Bill struct {
	Records []BillRecord
	Period  BillPeriod
	Totals  map[string]json.Number // by name of the amount
}

// BillPeriod is the period of the records. API v1 doesn't return it.
type BillPeriod struct {
	StartTime  string `json:"startTime"`
	EndTime    string `json:"endTime"`
	BucketSize string `json:"bucketSize"`
}

// BillRecord is the cost of one object, or of all objects, in one time bucket.
type BillRecord struct {
	StartTime string
	EndTime   string                 // "" on API v1
	IDs       map[string]string      // by member: podId, serverlessId, gpuTypeId, …
	Amounts   map[string]json.Number // by member: totalAmount, gpuAmount, …
	Counts    map[string]int64       // by member, of API v1: timeBilledMs, diskSpaceBilledGb, …
}

// Bill reads the cost of objects. path is relative to /v1/billing or /v2/billing, such as "/pods". query
// selects the period and the objects; its parameters depend on the API version.
func (c *Client) Bill(ctx context.Context, path string, query url.Values) (b Bill, err error) {
	call := httpclient.Call{URL: c.deployment.settings.BaseURL + "/" + string(c.Version) + "/billing" + path, Query: query, List: true}
	if c.Version == V1 {
		if b.Records, err = allPages[BillRecord](ctx, c.deployment, call, "", nil); err == nil {
			b.Totals, err = sumAmounts(b.Records)
			b.Records = nonZeroRecords(b.Records)
		}
		return b, err
	}
	var rest struct {
		Metadata struct {
			Query  BillPeriod
			Totals map[string]json.Number
		}
	}
	b.Records, err = allPages[BillRecord](ctx, c.deployment, call, "records", &rest)
	b.Records, b.Period, b.Totals = nonZeroRecords(b.Records), rest.Metadata.Query, rest.Metadata.Totals
	return b, err
}

func nonZeroRecords(records []BillRecord) []BillRecord {
	return slices.DeleteFunc(records, func(r BillRecord) bool {
		for _, n := range r.Amounts {
			mantissa, _, _ := strings.Cut(strings.ToLower(n.String()), "e")
			if strings.ContainsAny(mantissa, "123456789") {
				return false
			}
		}
		for _, n := range r.Counts {
			if n != 0 {
				return false
			}
		}
		return true
	})
}

// UnmarshalJSON sorts the members of a record into times, ids, amounts and counts.
func (r *BillRecord) UnmarshalJSON(data []byte) error {
	var all map[string]json.RawMessage
	if err := httpclient.Decode(data, &all); err != nil {
		return err
	}
	*r = BillRecord{IDs: map[string]string{}, Amounts: map[string]json.Number{}, Counts: map[string]int64{}}
	for name, raw := range all {
		var text string
		var number json.Number
		switch {
		case string(raw) == "null":
		case json.Unmarshal(raw, &text) == nil:
			switch name {
			case "startTime", "time":
				r.StartTime = text
			case "endTime":
				r.EndTime = text
			default:
				r.IDs[name] = text
			}
		case json.Unmarshal(raw, &number) != nil:
		case isCount[name]:
			var n int64
			if err := httpclient.Decode(raw, &n); err != nil {
				return httpclient.PrefixPath("."+name, err)
			}
			r.Counts[name] = n
		case name == "amount":
			r.Amounts["totalAmount"] = number
		default:
			r.Amounts[name] = number
		}
	}
	return nil
}

// isCount lists the members of API v1's records that are counts, not amounts.
var isCount = map[string]bool{"timeBilledMs": true, "diskSpaceBilledGb": true, "highPerformanceStorageDiskSpaceBilledGb": true}

// sumAmounts adds up decimal numbers without rounding.
func sumAmounts(records []BillRecord) (map[string]json.Number, error) {
	sums := map[string]*big.Rat{}
	for _, r := range records {
		for name, amount := range r.Amounts {
			n, ok := new(big.Rat).SetString(amount.String())
			if !ok {
				return nil, fmt.Errorf("%s is not a number: %q", name, amount)
			}
			if sums[name] == nil {
				sums[name] = new(big.Rat)
			}
			sums[name].Add(sums[name], n)
		}
	}
	out := map[string]json.Number{}
	for name, sum := range sums {
		digits, _ := sum.FloatPrec() // exact: all are decimal
		out[name] = json.Number(sum.FloatString(digits))
	}
	return out, nil
}

package actions

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
)

// decode parses JSON from a configuration. A null text gives nil.
func decode(text types.String) (any, error) {
	if text.IsNull() || text.IsUnknown() {
		return nil, nil
	}
	return decodeJSON(text.ValueString())
}

// decodeJSON parses JSON and keeps numbers as text.
func decodeJSON(text string) (v any, err error) {
	if !json.Valid([]byte(text)) {
		return nil, errors.New("it is not valid JSON")
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&v)
	return v, err
}

// difference describes the first difference between two values, or returns "". If allowMore is true,
// the objects in got may have more members than those in want.
func difference(path string, got, want any, allowMore bool) string {
	expected, ok := want.(map[string]any)
	if !ok {
		if equal(got, want) {
			return ""
		}
		return fmt.Sprintf("%s is %s, expected %s", path, redact.JSON(got), redact.JSON(want))
	}
	members, ok := got.(map[string]any)
	if !ok {
		return fmt.Sprintf("%s is %s, expected an object", path, redact.JSON(got))
	}
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		member, has := members[name]
		if !has {
			return fmt.Sprintf("%s has no member %q", path, name)
		}
		if text := difference(path+"."+name, member, expected[name], allowMore); text != "" {
			return text
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if _, ok := expected[name]; !ok && !allowMore {
			return fmt.Sprintf("%s has a member %q, expected none", path, name)
		}
	}
	return ""
}

// equal compares two values. Numbers are equal if their values are: 1 equals 1.0.
func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && (a == b || sameNumber(a.String(), b.String()))
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equal)
	}
	return a == b
}

// sameNumber compares with 512 bits, which limits the cost of a large exponent. Numbers that are too large for them are never equal.
func sameNumber(a, b string) bool {
	x, _, errX := big.ParseFloat(a, 10, 512, big.ToNearestEven)
	y, _, errY := big.ParseFloat(b, 10, 512, big.ToNearestEven)
	return errX == nil && errY == nil && !x.IsInf() && x.Cmp(y) == 0
}

package actions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
)

// decode parses JSON from a configuration. A null text gives nil.
func decode(text types.String) (any, error) {
	if text.IsNull() || text.IsUnknown() {
		return nil, nil
	}
	return decodeJSON([]byte(text.ValueString()))
}

// decodeJSON parses JSON and keeps numbers as text. An empty text gives nil, because a handler
// may return nothing.
func decodeJSON(text []byte) (v any, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	if !json.Valid(text) {
		return nil, errors.New("it is not valid JSON")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return v, decoder.Decode(&v)
}

// difference describes the first difference between two values, or returns "". If open is true,
// objects may have more members than wanted.
func difference(at string, got, want any, open bool) string {
	wanted, ok := want.(map[string]any)
	if !ok {
		if equal(got, want) {
			return ""
		}
		return fmt.Sprintf("%s is %s, expected %s", at, redact.JSON(got), redact.JSON(want))
	}
	members, ok := got.(map[string]any)
	if !ok {
		return fmt.Sprintf("%s is %s, expected an object", at, redact.JSON(got))
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		member, has := members[name]
		if !has {
			return fmt.Sprintf("%s has no member %q", at, name)
		}
		if text := difference(at+"."+name, member, wanted[name], open); text != "" {
			return text
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if _, expected := wanted[name]; !expected && !open {
			return fmt.Sprintf("%s has a member %q, expected none", at, name)
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

// sameNumber compares with 512 bits, which limits the cost of a large exponent.
func sameNumber(a, b string) bool {
	x, _, errX := big.ParseFloat(a, 10, 512, big.ToNearestEven)
	y, _, errY := big.ParseFloat(b, 10, 512, big.ToNearestEven)
	return errX == nil && errY == nil && x.Cmp(y) == 0
}

const longestShown = 500 // characters

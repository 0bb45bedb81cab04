package cases

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// The generator's text encodes its value, and the same seed gives the same text.
func TestGenerator(t *testing.T) {
	for seed := range uint64(300) {
		write := func() (any, string) {
			g := generator{rand.New(rand.NewPCG(seed, 0))}
			v := any(g.allValues())
			if seed%3 > 0 {
				v = g.value(5)
			}
			return v, wire.Encode(g.Rand, v, true)
		}
		v, text := write()
		_, second := write()
		must.Require(t, second == text, "seed", seed, "gives two different texts")
		got, err := wire.Decode([]byte(text))
		must.Require(t, err == nil && utf8.ValidString(text) && json.Valid([]byte(text)), "seed", seed, "gives the invalid text", text, err)
		d := suite.Difference(v, got)
		must.Require(t, d == "", "seed", seed, d)
	}
}

func TestGeneratedNumbersAreDoubles(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(1, 0))}
	list := g.allValues()["numbers"].([]any)
	for range 5000 {
		list = append(list, g.number())
	}
	for _, n := range list {
		must.Equal(t, suite.Difference(n, must.Do(n.(json.Number).Float64())(t)), "")
	}
}

func TestInputSize(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(1, 0))}
	for _, size := range []int{1<<16 - 1, 1 << 16, 1<<16 + 1, 1 << 20} {
		text, input := inputOfSize(g, size)
		must.Equal(t, len(text), size, "bytes")
		must.Equal(t, suite.Difference(input, must.Do(wire.Decode([]byte(text)))(t)), "")
	}
}

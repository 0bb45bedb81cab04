package suite

import (
	"testing"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Every JSON value equals itself, comparisons are symmetric, and differences are described.
func FuzzSame(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, first, second []byte) {
		a, err := Decode(first)
		if err != nil {
			return
		}
		must.Equal(t, Difference(a, a), "", first, "differs from itself")
		b, err := Decode(second)
		if err != nil {
			return
		}
		must.Equal(t, Same(a, b), Same(b, a), first, second, "are the same in one order only")
		d := Difference(a, b)
		must.Hold(t, utf8.ValidString(d) && len(d) <= 2000+4*(len(first)+len(second)), string(first), string(second), "differ by", d)
	},
		fuzz.Seed{[]byte(`{"a":[1,2.50,{"b":"ü"}]}`), []byte(`{"a":[1.0,2.5,{"b":"ü"}]}`)}, fuzz.Seed{[]byte(`1e400`), []byte(`10e399`)}, fuzz.Seed{[]byte(`9007199254740993`), []byte(`9007199254740992`)},
		fuzz.Seed{[]byte(`"\ud800` + `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"`), []byte(`null`)}, fuzz.Seed{[]byte(`-0`), []byte(`0.0e999999999999999999999`)},
	)
}

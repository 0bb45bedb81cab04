package env_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Whatever a ledger file contains, for instance after a crash: an added entry is read back
// beside the previous ones.
func FuzzLedger(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "ledger")
		must.Succeed(t, os.WriteFile(path, text, 0o600))
		l, err := env.OpenLedger(path)
		if err != nil {
			return
		}
		before := l.Remaining("")
		added, err := l.Add(env.Object{Kind: "template", ID: "x", Method: "DELETE", URL: "/v2/templates/x", Case: "the case"})
		must.Succeed(t, err)
		must.Succeed(t, l.Close())
		reopened, err := env.OpenLedger(path)
		if err != nil {
			t.Fatalf("%q: can't be read after an entry was added: %v", text, err)
		}
		defer reopened.Close()
		left := reopened.Remaining("")
		if !slices.ContainsFunc(left, func(m env.Object) bool { return m.N == added.N && m.ID == "x" }) || len(left) != len(before)+1 {
			t.Errorf("%q: after one more there is\n%+v\nbefore\n%+v", text, left, before)
		}
	},
		fuzz.Seed{[]byte("{\"n\":1,\"kind\":\"template\",\"id\":\"a\",\"method\":\"DELETE\",\"url\":\"/a\",\"case\":\"c\"}\n{\"n\":2,\"kind\":\"job\",\"id\":\"b\"}\n{\"n\":1,\"gone\":true}\n")},
		fuzz.Seed{[]byte("{\"n\":1,\"id\":\"a\"}\n{\"n\":2,\"id\"")}, fuzz.Seed{[]byte("")}, fuzz.Seed{[]byte("{\"n\":-1}\n{\"n\":9223372036854775807}\n")},
	)
}

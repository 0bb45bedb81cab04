package fuzz_test

import (
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// faulty is the variable that makes FuzzFaulty fail in a child process.
const faulty = "GPUCLOUD_TEST_FAULTY_PROPERTY"

// FuzzFaulty fails for variations of its seeds, but not for the seeds.
func FuzzFaulty(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, text string, n int) {
		switch os.Getenv(faulty) {
		case "fails":
			if strings.HasPrefix(text, "ab") && len(text) > 5 {
				t.Fatal("it is too long")
			}
		case "panics":
			_ = text[3] // a seed has four bytes
		case "allocates":
			if n < 0 {
				allocated = make([]byte, 128<<20)
			}
		}
	}, fuzz.Seed{"abcd", 1}, fuzz.Seed{`{"a":1}`, 7})
}

var allocated []byte

// The variations suffice to find a fault, and the report contains the input as a file.
func TestFaultsAreFound(t *testing.T) {
	for fault, want := range map[string]string{"fails": "it is too long", "panics": "index out of range", "allocates": "134", "": "ok"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^FuzzFaulty$", "-test.short")
		cmd.Env = append(os.Environ(), faulty+"="+fault)
		out, err := cmd.CombinedOutput()
		if fault == "" {
			must.Hold(t, err == nil, "without a fault, FuzzFaulty ended with", err, string(out))
			continue
		}
		text := string(out)
		must.Hold(t, err != nil && strings.Contains(text, want) && strings.Contains(text, "testdata/fuzz/FuzzFaulty/NAME:") && strings.Contains(text, "go test fuzz v1"),
			"FuzzFaulty, which", fault, "ended with", err, "expected", want, "and the input as a file in", text)
	}
}

// A name always gets the same variations, and they differ from each other.
func TestVariationsAreReproducible(t *testing.T) {
	seeds := []fuzz.Seed{{"one", []byte("two"), true, 3, uint8(4)}, {"", []byte{}, false, 0, uint8(0)}}
	first := fuzz.Vary("a", seeds, 500)
	must.Equal(t, fuzz.Vary("a", seeds, 500), first, "variations of the second run")
	must.Hold(t, !reflect.DeepEqual(first, fuzz.Vary("b", seeds, 500)), "another name gets the same variations")
	texts := map[string]bool{}
	for _, s := range first {
		texts[s[0].(string)] = true
	}
	must.Hold(t, len(texts) >= 50, len(texts), "different texts, expected at least 50")
}

// Package fuzz checks properties of decoders of untrusted input: under "go test -fuzz"
// (make fuzz) with the inputs that Go's engine finds, under plain "go test" with the seeds,
// the saved failing inputs in testdata/fuzz, and a fixed number of pseudo-random variations
// of the seeds.
package fuzz

import (
	"flag"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// Seed is one value for each argument of a property: string, []byte, bool, int
// or uint8.
type Seed []any

// How many variations of the seeds plain "go test" tries.
const (
	variations      = 1000
	variationsShort = 100
)

// Limits for one input of a property, including its own work. They find amplification by orders
// of magnitude, not by a factor.
const (
	maxTime              = 20 * time.Second
	maxBytes             = 64 << 20
	maxBytesPerInputByte = 10_000
)

// Run checks a property, a func(*testing.T, …) with the arguments of the seeds. If it fails,
// panics, takes too long or allocates too much for an input, the input is printed as a file for
// testdata/fuzz.
func Run(f *testing.F, property any, seeds ...Seed) {
	f.Helper()
	for _, seed := range seeds {
		f.Add(seed...)
	}
	if engine := flag.Lookup("test.fuzz"); engine == nil || engine.Value.String() == "" {
		n := variations
		if testing.Short() {
			n = variationsShort
		}
		for _, seed := range Vary(f.Name(), seeds, n) {
			f.Add(seed...)
		}
	}
	f.Fuzz(expectBounded(property))
}

// expectBounded wraps a property with limits of its costs.
func expectBounded(property any) any {
	p := reflect.ValueOf(property)
	return reflect.MakeFunc(p.Type(), func(args []reflect.Value) []reflect.Value {
		t := args[0].Interface().(*testing.T)
		started, before := time.Now(), allocatedBytes()
		defer func() {
			if panicked := recover(); panicked != nil {
				t.Errorf("it panicked: %v\n%s", panicked, debug.Stack())
			}
			size := 0
			for _, a := range args[1:] {
				if k := a.Kind(); k == reflect.String || k == reflect.Slice {
					size += a.Len()
				}
			}
			if took := time.Since(started); took > maxTime {
				t.Errorf("%d input bytes took %s, expected at most %s", size, took, maxTime)
			}
			if got, limit := allocatedBytes()-before, uint64(maxBytes+size*maxBytesPerInputByte); got > limit {
				t.Errorf("%d input bytes caused %d bytes of allocation, expected at most %d", size, got, limit)
			}
			if t.Failed() {
				t.Logf("to keep the input, put this into testdata/fuzz/%s/NAME:\n%s", target(t), encode(args[1:]))
			}
		}()
		p.Call(args)
		return nil
	}).Interface()
}

func allocatedBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func target(t *testing.T) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return name
}

// Vary returns n variations of seeds, always the same for a name.
func Vary(name string, seeds []Seed, n int) (all []Seed) {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // a hash accepts all writes
	v := varier{rand.New(rand.NewPCG(hash.Sum64(), 1))}
	for range n {
		base, other := seeds[v.IntN(len(seeds))], seeds[v.IntN(len(seeds))]
		next := make(Seed, len(base))
		copy(next, base)
		for again := true; again; again = v.IntN(3) == 0 {
			i := v.IntN(len(next))
			next[i] = v.value(next[i], other[i])
		}
		all = append(all, next)
	}
	return all
}

// Request parses a request as a server does. It returns nil if net/http rejects the request.
func Request(t *testing.T, authorization, method, target, body string) *http.Request {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if _, refused := http.NewRequestWithContext(t.Context(), method, "/", nil); refused != nil || err != nil {
		return nil
	}
	r := &http.Request{Method: method, URL: u, Host: "deployment", Header: http.Header{"Authorization": {authorization}}, Body: http.NoBody}
	if body != "" {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	return r
}

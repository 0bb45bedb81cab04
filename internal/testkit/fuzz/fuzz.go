// Package fuzz checks properties of decoders of untrusted input. Under "go test -fuzz" (make fuzz), Go's engine
// generates the inputs. Plain "go test" uses the seeds, the saved failing inputs in testdata/fuzz, and a fixed
// number of pseudo-random variations of the seeds.
package fuzz

import (
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"
)

// Seed is one value for each argument of a property: string, []byte, bool, int or uint8.
type Seed []any

// How many variations of the seeds plain "go test" tries.
const (
	variations      = 1000
	variationsShort = 100
)

// Limits of a property for one input. They find amplification by orders of magnitude, not by a factor.
const (
	maxTime              = 20 * time.Second
	maxBytes             = 64 << 20
	maxBytesPerInputByte = 10_000
)

// Run checks a property, a func(*testing.T, …) with the arguments of the seeds. If it fails, panics, takes
// too long or allocates too much for an input, the input is printed as a file for testdata/fuzz.
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
				target, _, _ := strings.Cut(t.Name(), "/")
				t.Logf("to keep the input, put this into testdata/fuzz/%s/NAME:\n%s", target, encode(args[1:]))
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

// Vary returns n variations of seeds, always the same for a name.
func Vary(name string, seeds []Seed, n int) (all []Seed) {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // a hash accepts all writes
	v := varier{rand.New(rand.NewPCG(hash.Sum64(), 1))}
	for range n {
		base, other := seeds[v.IntN(len(seeds))], seeds[v.IntN(len(seeds))]
		varied := slices.Clone(base)
		for more := true; more; more = v.IntN(3) == 0 {
			i := v.IntN(len(varied))
			varied[i] = v.value(varied[i], other[i])
		}
		all = append(all, varied)
	}
	return all
}

// Request parses a request as a server does. It returns nil if net/http rejects the request.
func Request(t *testing.T, authorization, method, target, body string) *http.Request {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if _, methodErr := http.NewRequestWithContext(t.Context(), method, "/", nil); methodErr != nil || err != nil {
		return nil
	}
	r := &http.Request{Method: method, URL: u, Host: "deployment", Header: http.Header{"Authorization": {authorization}}, Body: http.NoBody}
	if body != "" {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	return r
}

// tokens are texts that decoders often mishandle.
var tokens = []string{
	"", "null", "true", "0", "-0", "-1", "1e5", "1.5", "1e999", "9223372036854775808", `""`, `"\ud800"`, `"\u0000"`, "{}", "[]", "[[[[", "{\"a\":", ",", ":", `"`, `\`, `,"a":1`,
	"\x00", "\n", "\r\n", "\t", " ", "\xff", "\xc3\x28", "\u2028", "\u202e", "\ufeff", "\x1b[2J", "😀",
	"/", "//", "../", "..", "%2f", "%00", "%zz", "?", "#", "&", "=", ";", "@", "%", "*", "$", "~", "-", "'",
}

var numbers = []int{0, 1, -1, 2, 7, 99, 100, 1000, 1 << 31, -1 << 31, 1<<63 - 1, -1 << 63}

type varier struct{ *rand.Rand }

// value varies an argument. other is the same argument of another seed.
func (v varier) value(argument, other any) any {
	switch a := argument.(type) {
	case string:
		return v.text(a, other.(string))
	case []byte:
		return []byte(v.text(string(a), string(other.([]byte))))
	case bool:
		return !a
	case int:
		return numbers[v.IntN(len(numbers))]
	case uint8:
		return uint8(v.IntN(256))
	}
	panic(fmt.Sprintf("a seed has a %T", argument))
}

func (v varier) text(s, other string) string {
	from, to := v.span(len(s))
	switch v.IntN(9) {
	case 0: // replace a part with a token
		return s[:from] + v.token() + s[to:]
	case 1: // insert a token
		return s[:from] + v.token() + s[from:]
	case 2: // remove a part
		return s[:from] + s[to:]
	case 3: // repeat a part
		return s[:to] + strings.Repeat(s[from:to], v.IntN(20)) + s[to:]
	case 4: // insert a part of another seed
		begin, end := v.span(len(other))
		return s[:from] + other[begin:end] + s[to:]
	case 5: // truncate
		return s[:from]
	case 6: // change a byte
		if from < len(s) {
			return s[:from] + string([]byte{byte(v.IntN(256))}) + s[from+1:]
		}
	case 7: // swap two parts
		return s[to:] + s[from:to] + s[:from]
	case 8: // replace the text between two delimiters
		if i, j := v.delimitedRange(s); i < j {
			return s[:i] + v.token() + s[j:]
		}
	}
	return s + v.token()
}

func (v varier) token() string { return tokens[v.IntN(len(tokens))] }

func (v varier) span(length int) (from, to int) {
	from = v.IntN(length + 1)
	return from, from + v.IntN(min(length-from, 40)+1)
}

// delimitedRange returns the range from one delimiter of JSON or of a URL to the next.
func (v varier) delimitedRange(s string) (from, to int) {
	const delimiters = `":,[]{}/?&=`
	at := v.IntN(len(s) + 1)
	i := strings.IndexAny(s[at:], delimiters)
	if i < 0 {
		return 0, 0
	}
	from = at + i + 1
	j := strings.IndexAny(s[from:], delimiters)
	if j < 0 {
		return from, len(s)
	}
	return from, from + j
}

// encode formats arguments as Go's fuzzing engine does.
func encode(args []reflect.Value) string {
	var b strings.Builder
	b.WriteString("go test fuzz v1\n")
	for _, a := range args {
		switch value := a.Interface().(type) {
		case []byte:
			fmt.Fprintf(&b, "[]byte(%q)\n", value)
		case string:
			fmt.Fprintf(&b, "string(%q)\n", value)
		default:
			fmt.Fprintf(&b, "%T(%v)\n", value, value)
		}
	}
	return b.String()
}

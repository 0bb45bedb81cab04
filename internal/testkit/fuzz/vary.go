package fuzz

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
)

// tokens are texts that decoders often mishandle.
var tokens = []string{
	"", "null", "true", "0", "-0", "-1", "1e5", "1.5", "1e999", "9223372036854775808", `""`, `"\ud800"`, `"\u0000"`, "{}", "[]", "[[[[", "{\"a\":", ",", ":", `"`, `\`, `,"a":1`,
	"\x00", "\n", "\r\n", "\t", " ", "\xff", "\xc3\x28", "\u2028", "\u202e", "\ufeff", "\x1b[2J", "😀",
	"/", "//", "../", "..", "%2f", "%00", "%zz", "?", "#", "&", "=", ";", "@", "%", "*", "$", "~", "-", "'",
}

var numbers = []int{0, 1, -1, 2, 7, 99, 100, 1000, 1 << 31, -1 << 31, 1<<63 - 1, -1 << 63}

type varier struct{ *rand.Rand }

// value varies an argument. other is the same argument of another seed.
func (v varier) value(of, other any) any {
	switch of := of.(type) {
	case string:
		return v.text(of, other.(string))
	case []byte:
		return []byte(v.text(string(of), string(other.([]byte))))
	case bool:
		return !of
	case int:
		return numbers[v.IntN(len(numbers))]
	case uint8:
		return uint8(v.IntN(256))
	}
	panic(fmt.Sprintf("a seed has a %T", of))
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
	case 8: // replace the text between two quotes or braces
		if i, j := v.between(s); i < j {
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

// between returns the range from one of JSON's delimiters to the next.
func (v varier) between(s string) (from, to int) {
	const marks = `":,[]{}/?&=`
	at := v.IntN(len(s) + 1)
	i := strings.IndexAny(s[at:], marks)
	if i < 0 {
		return 0, 0
	}
	from = at + i + 1
	j := strings.IndexAny(s[from:], marks)
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

package redact

import (
	"context"
	"strings"
	"testing"
)

// A secret may have 16 MiB, and any content.
func BenchmarkLargeSecret(b *testing.B) {
	for name, secret := range map[string]string{"one character": strings.Repeat("x", 16<<20), "short lines": strings.Repeat("abcdefgh i\n", 16<<20/11)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, s := NewContext(context.Background())
				s.Add(secret)
				s.Message("could not create the secret")
			}
		})
	}
}

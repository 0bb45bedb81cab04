package guides

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Pages that are read from top to bottom stay short.
func TestWords(t *testing.T) {
	total := 0
	for _, document := range documents(t) {
		text := must.ReadFile(t, filepath.Join(root, document))
		words, limit := len(strings.Fields(string(text))), 0
		switch {
		case document == "docs/guides/troubleshooting.md":
			limit = 1000
		case strings.HasPrefix(document, "docs/start/"):
			limit = 800
		case strings.HasPrefix(document, "docs/guides/"):
			limit = 1500
		}
		must.Hold(t, limit <= 0 || words <= limit, document, "has", words, "words, expected at most", limit)
		if strings.HasPrefix(document, "docs/") {
			total += words
		}
	}
	must.Hold(t, total <= 60_000, "docs/ has", total, "words, expected at most 60,000")
}

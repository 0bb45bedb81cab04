package mgmt

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
)

// file is content that doesn't change while the server runs.
type file struct {
	header  http.Header
	content []byte
}

func newFile(kind string, content []byte) file {
	return file{http.Header{
		"Content-Type":           {kind},
		"Cache-Control":          {"no-cache"}, // revalidate: another release has another document
		"Etag":                   {fmt.Sprintf("%q", base64.RawURLEncoding.EncodeToString(digest(content)))},
		"X-Content-Type-Options": {"nosniff"},
	}, content}
}

func digest(content []byte) []byte {
	sum := sha256.Sum256(content)
	return sum[:]
}

// newPage renders a document as a page that loads nothing and runs no script.
func newPage(d openapi.Document) file {
	f := newFile("text/html; charset=utf-8", openapi.Page(d))
	f.header.Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(digest([]byte(openapi.PageStyle)))+
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
	f.header.Set("Referrer-Policy", "no-referrer")
	return f
}

// ServeHTTP serves the content, or 304 to a client that already has it.
func (f file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, values := range f.header {
		w.Header()[name] = values
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
}

func (c *call) openAPIV1() (file, error) { return c.documents().v1, nil }

func (c *call) docsV1() (file, error) { return c.documents().v1Page, nil }

func (c *call) openAPIV2() (file, error) { return c.documents().v2, nil }

package wire

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
)

// slash is where a redirect leads that adds a slash to the path of a request, or
// takes it off; "" for every other answer. Other redirects are judged as they
// came.
func slash(resp *http.Response, req *http.Request) string {
	if resp == nil {
		return ""
	}
	kept := resp.StatusCode == http.StatusPermanentRedirect || resp.StatusCode == http.StatusTemporaryRedirect
	moved := resp.StatusCode == http.StatusMovedPermanently || resp.StatusCode == http.StatusFound
	if !kept && (!moved || req.Method != http.MethodGet) {
		return ""
	}
	to, err := resp.Location()
	if err != nil || to.Host != req.URL.Host || to.Scheme != req.URL.Scheme || to.RawQuery != req.URL.RawQuery {
		return ""
	}
	if from := req.URL.Path; to.Path == from || strings.TrimSuffix(to.Path, "/") != strings.TrimSuffix(from, "/") {
		return ""
	}
	return to.String()
}

// decode reads a body that is compressed: a client that names no coding may get
// any.
func decode(resp *http.Response) {
	if !strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		return
	}
	resp.Body = &unzipped{raw: resp.Body}
}

// unzipped decompresses what is there: an answer without a body has nothing to
// begin with.
type unzipped struct {
	raw io.ReadCloser
	z   *gzip.Reader
}

func (u *unzipped) Read(p []byte) (n int, err error) {
	if u.z == nil {
		if u.z, err = gzip.NewReader(u.raw); err != nil {
			return 0, err // io.EOF where there is no body
		}
	}
	return u.z.Read(p)
}

func (u *unzipped) Close() error { return u.raw.Close() }

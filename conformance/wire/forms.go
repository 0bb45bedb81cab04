package wire

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
)

// slashRedirect returns the target of a redirect that only adds or removes a trailing slash
// of the path, or "". Other redirects aren't followed.
func slashRedirect(resp *http.Response, req *http.Request) string {
	if resp == nil {
		return ""
	}
	keepsMethod := resp.StatusCode == http.StatusPermanentRedirect || resp.StatusCode == http.StatusTemporaryRedirect
	mayChangeMethod := resp.StatusCode == http.StatusMovedPermanently || resp.StatusCode == http.StatusFound
	if !keepsMethod && (!mayChangeMethod || req.Method != http.MethodGet) {
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

// decompress decodes a gzip body, which a server may send although the request has no
// Accept-Encoding.
func decompress(resp *http.Response) {
	if !strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		return
	}
	resp.Body = &gzipBody{raw: resp.Body}
}

// gzipBody decompresses on the first read, since an empty body has no gzip header.
type gzipBody struct {
	raw io.ReadCloser
	z   *gzip.Reader
}

func (u *gzipBody) Read(p []byte) (n int, err error) {
	if u.z == nil {
		if u.z, err = gzip.NewReader(u.raw); err != nil {
			return 0, err // io.EOF if there is no body
		}
	}
	return u.z.Read(p)
}

func (u *gzipBody) Close() error { return u.raw.Close() }

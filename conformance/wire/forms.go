package wire

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
)

// slashRedirect returns where a redirect leads that adds or removes a slash at the
// end of the path; "" for every other answer. Other redirects are not followed.
func slashRedirect(resp *http.Response, req *http.Request) string {
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

// decompress decodes a compressed body: a client without Accept-Encoding may get one.
func decompress(resp *http.Response) {
	if !strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		return
	}
	resp.Body = &gzipBody{raw: resp.Body}
}

// gzipBody decompresses a body on its first read: an answer without a body has no gzip
// header.
type gzipBody struct {
	raw io.ReadCloser
	z   *gzip.Reader
}

func (u *gzipBody) Read(p []byte) (n int, err error) {
	if u.z == nil {
		if u.z, err = gzip.NewReader(u.raw); err != nil {
			return 0, err // io.EOF where there is no body
		}
	}
	return u.z.Read(p)
}

func (u *gzipBody) Close() error { return u.raw.Close() }

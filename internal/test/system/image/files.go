package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	user    = 65532 // as in other rootless images
	home    = "/var/lib/jobrunner"
	program = "/usr/local/bin/jobrunner"
)

type file struct {
	path string // without a leading slash; a folder's ends with a slash
	mode int64
	user int
	text []byte
}

// systemFiles are what a static program needs: certificate authorities, user names, writable folders.
func systemFiles() []file {
	return []file{
		{path: "etc/", mode: 0o755},
		{path: "etc/group", mode: 0o644, text: fmt.Appendf(nil, "root:x:0:\njobrunner:x:%d:\n", user)},
		{path: "etc/passwd", mode: 0o644, text: fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\njobrunner:x:%d:%d:jobrunner:%s:/sbin/nologin\n", user, user, home)},
		{path: "etc/ssl/", mode: 0o755},
		{path: "etc/ssl/certs/", mode: 0o755},
		{path: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, text: authorities()},
		{path: "tmp/", mode: 0o1777},
		{path: "usr/", mode: 0o755},
		{path: "usr/local/", mode: 0o755},
		{path: "usr/local/bin/", mode: 0o755},
		{path: "var/", mode: 0o755},
		{path: "var/lib/", mode: 0o755},
		{path: home[1:] + "/", mode: 0o700, user: user},
	}
}

// authorities returns Mozilla's certificate authorities in PEM, except the few with constraints, which PEM can't
// express.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // writes to memory don't fail
		}
	}
	return out.Bytes()
}

// layer packs files into a layer. All times are 1970, so that equal files give an equal layer.
func layer(files []file) (v1.Layer, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := tar.Header{Name: f.path, Mode: f.mode, Size: int64(len(f.text)), Uid: f.user, Gid: f.user, Format: tar.FormatPAX}
		if err := w.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil })
}

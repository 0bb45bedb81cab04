package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// write replaces the layout and the archives of an earlier build in a folder.
func write(folder, tag string, index v1.ImageIndex, images []platformImage) error {
	reference, err := name.NewTag(tag)
	if err != nil {
		return err
	}
	oci := filepath.Join(folder, "oci")
	if err := os.RemoveAll(oci); err != nil {
		return err
	}
	path, err := layout.Write(oci, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag})); err != nil {
		return err
	}
	for _, b := range images {
		if err := tarball.WriteToFile(filepath.Join(folder, archiveName(b.platform)), reference, b.image); err != nil {
			return err
		}
	}
	return nil
}

func pushTo(ctx context.Context, target string, index v1.ImageIndex) error {
	reference, err := name.ParseReference(target, name.StrictValidation)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(reference, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("%w; after 401 or 403, run docker login %s", err, reference.Context().RegistryStr())
	}
	return nil
}

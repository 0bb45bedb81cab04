//go:build linux

// Command pictures makes the pictures of the README from a real run of the first guide:
// a terminal cast (SVG) and a screenshot of the page. It needs bin/ (make build),
// Terraform or OpenTofu, Chromium and Python.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

// patience bounds the whole run.
const patience = 3 * time.Minute

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return makePictures(ctx, ".", "bin", filepath.Join("docs", "images"))
}

const (
	castFile = "first-minute.svg"
	pageFile = "page.png"

	// maxPicture is as much as a page of the project may load for one picture.
	maxPicture = 150_000
)

// makePictures follows the guide of a clone with the programs of bin, and writes the
// pictures.
func makePictures(ctx context.Context, root, bin, to string) (err error) {
	s, err := newSession(ctx, root, bin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	cast, err := s.record(ctx)
	if err != nil {
		return err
	}
	page, err := s.screenshot(ctx)
	if err != nil {
		return err
	}
	for name, picture := range map[string][]byte{castFile: cast, pageFile: page} {
		if len(picture) > maxPicture {
			return fmt.Errorf("%s has %d bytes: expected at most %d", name, len(picture), maxPicture)
		}
		if err := os.WriteFile(filepath.Join(to, name), picture, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Command image implements `make image`: it builds the jobrunner's container image for each
// platform, without a container engine or a base image. Builds are reproducible: the same
// source, Go version and flags give the same digest.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	s := settings{root: "../../..", source: "./cmd/jobrunner"}
	flags.StringVar(&s.version, "version", "dev", "version of the program, and tag of the image")
	flags.StringVar(&s.revision, "revision", "", "commit of the source, as a label")
	flags.StringVar(&s.name, "name", "localhost/gpucloud/jobrunner", "name of the image in the archives")
	created := flags.Int64("created", 0, "creation time of the image in `seconds` since 1970")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64", "platforms, separated by commas")
	folder := flags.String("o", "../../../bin/image", "output `folder`: oci, the layout of all platforms, and an archive per platform for docker, podman and ctr")
	push := flags.String("push", "", "also push the image of all platforms to this `reference` of a registry, such as registry.example.com/team/jobrunner:1, with the login of docker or podman")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s.created = time.Unix(*created, 0).UTC()
	s.platforms = strings.Split(*platforms, ",")

	images, err := s.build(ctx)
	if err != nil {
		return err
	}
	index := imageIndex(images)
	if err := write(*folder, s.tag(), index, images); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%s %s in %s\n", s.tag(), digest, *folder)
	if *push == "" {
		return nil
	}
	if err := pushTo(ctx, *push, index); err != nil {
		return fmt.Errorf("pushing to %s: %w", *push, err)
	}
	fmt.Printf("pushed to %s\n", *push)
	return nil
}

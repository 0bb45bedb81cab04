// Command testcluster is `make kubernetes`: it builds the programs of the cluster that the
// tests of workers on Kubernetes start, into the user's cache.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/containers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	fmt.Println("Building what is absent of Kubernetes, some minutes ...")
	folder, err := containers.BuildKubernetes(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcluster:", err)
		os.Exit(1)
	}
	fmt.Println("Kubernetes is present:", folder)
}

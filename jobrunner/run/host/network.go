package host

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// clusterLabel is a label of a cluster's network, in addition to the owner's label.
const clusterLabel = "gpucloud.cluster"

// clusterBlockFormat is the format of the 256 address blocks for clusters' networks, each enough for the largest cluster.
const clusterBlockFormat = "10.65.%d.0/24"

func refuseNetwork(context.Context, run.Network) (string, error) {
	return "", errors.New("the rule for the image gives its containers no network (network: none), and the pods of a cluster need one")
}

func (e *Executor) clusterNetwork(engine *containerEngine) func(context.Context, run.Network) (string, error) {
	return func(ctx context.Context, n run.Network) (string, error) {
		if n.FolderID == "" { // a temporary network: the next run removes it
			if err := e.register.Note(engine.path); err != nil {
				return "", err
			}
		}
		return engine.makeClusterNetwork(ctx, n, []string{"--label", clusterLabel + "=" + n.Cluster, "--label", ownerLabel(n.FolderID, e.register.Run())})
	}
}

// makeNetwork creates a private network unless it exists.
func (e *containerEngine) makeNetwork(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	exists := func() bool {
		_, err := e.runCLI(ctx, "network", "inspect", name)
		return err == nil
	}
	if exists() {
		return nil
	}
	if _, err := e.runCLI(ctx, "network", "create", name); err != nil && !exists() { // another pod may have created it
		return fmt.Errorf("making the network %s: %w", name, err)
	}
	return nil
}

// makeClusterNetwork returns the block of a network. If the network doesn't exist, it is created
// with n.CIDR or, if that is "" or in use, with the first free block.
func (e *containerEngine) makeClusterNetwork(ctx context.Context, n run.Network, labels []string) (string, error) {
	if cidr, err := e.networkBlock(ctx, n.Name); err == nil {
		return cidr, nil
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(n.Cluster)) // never fails
	first := int(h.Sum32() % 256)
	blocks := []string{n.CIDR}
	if n.CIDR == "" {
		blocks = nil
	}
	for i := range 256 {
		blocks = append(blocks, fmt.Sprintf(clusterBlockFormat, (first+i)%256))
	}
	var err error
	for _, block := range blocks {
		args := append([]string{"network", "create", "--subnet", block}, labels...)
		if _, err = e.runCLI(ctx, append(args, n.Name)...); err == nil {
			return block, nil
		}
		if !isBlockInUse(err) {
			break
		}
	}
	return "", fmt.Errorf("making the network %s: %w", n.Name, err)
}

// isBlockInUse reports whether an engine's error means that another network has the addresses, not the name.
func isBlockInUse(err error) bool {
	text := err.Error()
	return !strings.Contains(text, "already exists") && (strings.Contains(text, "overlap") || strings.Contains(text, "already used") || strings.Contains(text, "already in use") || strings.Contains(text, "conflicts"))
}

func (e *containerEngine) networkBlock(ctx context.Context, name string) (string, error) {
	format := "{{range .IPAM.Config}}{{.Subnet}} {{end}}"
	if e.podman {
		format = "{{range .Subnets}}{{.Subnet}} {{end}}"
	}
	text, err := e.runCLI(ctx, "network", "inspect", "--format", format, name)
	block, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	if err == nil && block == "" {
		err = fmt.Errorf("the network %s has no addresses", name)
	}
	return block, err
}

func (e *containerEngine) networks(ctx context.Context, label string) ([]string, error) {
	text, err := e.runCLI(ctx, "network", "ls", "--filter", "label="+label, "--format", "{{.Name}}")
	return strings.Fields(text), err
}

// OrphanNetworks implements run.PodPrograms.
func (e *Executor) OrphanNetworks(ctx context.Context, folderID string) (all []string) {
	if folderID == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	for _, engine := range e.engines.usable() {
		names, _ := engine.networks(ctx, folderLabel+"="+folderID) // if the engine doesn't answer, the next start asks again
		all = append(all, names...)
	}
	return all
}

func (e *Executor) RemoveNetwork(ctx context.Context, name string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	for _, engine := range e.engines.usable() {
		if _, blockErr := engine.networkBlock(ctx, name); blockErr == nil { // it has the network
			_, removeErr := engine.runCLI(ctx, "network", "rm", name)
			err = errors.Join(err, removeErr)
		}
	}
	return err
}

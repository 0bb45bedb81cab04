package host

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
)

// clusterLabel is on the network of a cluster, beside the label of its owner, which is
// as that of a pod's container.
const clusterLabel = "gpucloud.cluster"

// clusterBlocks is where the networks of clusters are: 256 blocks, each with room for the
// most pods that a cluster has.
var clusterBlocks = netip.MustParsePrefix("10.65.0.0/16")

const clusterBits = 24

// clusterBlock is one of the 256.
func clusterBlock(n int) string {
	ip := clusterBlocks.Addr().As4()
	ip[2] = byte(n)
	return netip.PrefixFrom(netip.AddrFrom4(ip), clusterBits).String()
}

// refuseNetwork is for containers that reach nobody.
func refuseNetwork(context.Context, pod.Network) (string, error) {
	return "", errors.New("the rule for the image gives its containers no network (network: none), and the pods of a cluster need one")
}

// clusterNetwork makes the networks of clusters.
func (e *Executor) clusterNetwork(engine *containerEngine) func(context.Context, pod.Network) (string, error) {
	return func(ctx context.Context, n pod.Network) (string, error) {
		labels := []string{"--label", clusterLabel + "=" + n.Cluster}
		if n.Deployment != "" {
			labels = append(labels, "--label", deploymentLabel+"="+n.Deployment)
		} else {
			if err := e.register.Note(engine.path); err != nil {
				return "", err
			}
			labels = append(labels, "--label", runLabel+"="+e.register.Run())
		}
		return engine.makeClusterNetwork(ctx, n, labels)
	}
}

// makeClusterNetwork answers the block of a network, which it makes where there is none:
// with the block that it had before, or else the first that nobody has.
func (e *containerEngine) makeClusterNetwork(ctx context.Context, n pod.Network, labels []string) (string, error) {
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
		blocks = append(blocks, clusterBlock((first+i)%256))
	}
	var err error
	for _, block := range blocks {
		args := append([]string{"network", "create", "--subnet", block}, labels...)
		if _, err = e.cli(ctx, append(args, n.Name)...); err == nil {
			return block, nil
		}
		if !blockInUse(err) {
			break
		}
	}
	return "", fmt.Errorf("making the network %s: %w", n.Name, err)
}

// blockInUse tells by an engine's words that another network has the addresses.
func blockInUse(err error) bool {
	text := err.Error()
	return strings.Contains(text, "overlap") || strings.Contains(text, "already used") || strings.Contains(text, "already in use") || strings.Contains(text, "conflicts")
}

// networkBlock is the block of a network that is there.
func (e *containerEngine) networkBlock(ctx context.Context, name string) (string, error) {
	format := "{{range .IPAM.Config}}{{.Subnet}} {{end}}"
	if e.podman {
		format = "{{range .Subnets}}{{.Subnet}} {{end}}"
	}
	text, err := e.cli(ctx, "network", "inspect", "--format", format, name)
	if err != nil {
		return "", err
	}
	blocks := strings.Fields(text)
	if len(blocks) == 0 {
		return "", fmt.Errorf("the network %s has no addresses", name)
	}
	return blocks[0], nil
}

// networks are the names of those with a label.
func (e *containerEngine) networks(ctx context.Context, label string) ([]string, error) {
	text, err := e.cli(ctx, "network", "ls", "--filter", "label="+label, "--format", "{{.Name}}")
	return strings.Fields(text), err
}

// removeNetworks removes those with a label.
func (e *containerEngine) removeNetworks(ctx context.Context, label string) error {
	names, err := e.networks(ctx, label)
	for _, name := range names {
		_, failed := e.cli(ctx, "network", "rm", name)
		err = errors.Join(err, failed)
	}
	return err
}

// LeftNetworks are those of clusters that a deployment left.
func (p podPrograms) LeftNetworks(ctx context.Context, deployment string) (all []string) {
	if deployment == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, removing)
	defer cancel()
	for _, e := range p.engines.all {
		if e.state() == nil {
			names, _ := e.networks(ctx, deploymentLabel+"="+deployment) // one that does not answer is asked at the next start
			all = append(all, names...)
		}
	}
	return all
}

// RemoveNetwork removes a network from the engine that has it.
func (p podPrograms) RemoveNetwork(ctx context.Context, name string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, removing)
	defer cancel()
	for _, e := range p.engines.all {
		if e.state() != nil {
			continue
		}
		if _, failed := e.networkBlock(ctx, name); failed != nil {
			continue // it has none
		}
		_, failed := e.cli(ctx, "network", "rm", name)
		err = errors.Join(err, failed)
	}
	return err
}

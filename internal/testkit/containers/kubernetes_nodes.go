package containers

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func (k *Kubernetes) address(node int) string { return fmt.Sprintf("198.19.%d.%d", k.network, node) }

// freeNetwork returns the number of a network that no other cluster of this machine uses.
func freeNetwork() (int, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return 0, err
	}
	for i := range 250 {
		n := (os.Getpid()+i)%250 + 1
		taken := slices.ContainsFunc(addresses, func(a net.Addr) bool {
			return strings.HasPrefix(a.String(), fmt.Sprintf("198.18.%d.", n)) || strings.HasPrefix(a.String(), fmt.Sprintf("198.19.%d.", n))
		})
		if !taken {
			return n, nil
		}
	}
	return 0, errors.New("all networks of clusters are taken: 198.19.1.0/24 to 198.19.250.0/24")
}

func (k *Kubernetes) allNodes() (all []int) {
	for i := range k.nodes {
		all = append(all, i+1)
	}
	return all
}

// AddNode adds node-2, unless it exists. node-2 has only images that are built afterwards.
func (k *Kubernetes) AddNode(t testing.TB) {
	t.Helper()
	if k.nodes == 2 {
		return
	}
	_, err := fmt.Fprintln(k.input, "node 2")
	must.Succeed(t, errors.Join(err, k.loadPause(2), k.awaitNode(2)))
	k.nodes = 2
}

// awaitNode waits until a node is ready.
func (k *Kubernetes) awaitNode(number int) error {
	err := await(func() error {
		var node struct {
			Status struct {
				Conditions []struct{ Type, Status, Message string }
			}
		}
		if err := k.request(http.MethodGet, "/api/v1/nodes/"+nodeName(number), "", "", &node); err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				return nil
			}
		}
		return fmt.Errorf("the node is not ready: %v", node.Status.Conditions)
	}, filepath.Join(k.dir, fmt.Sprintf("kubelet%d.log", number)), filepath.Join(k.dir, APIServer+".log"))
	if err != nil {
		return fmt.Errorf("kubernetes: %w", err)
	}
	return nil
}

func nodeName(number int) string { return "node-" + strconv.Itoa(number) }

// SetGPUs makes GPUs allocatable on a node, as a device plugin and GPU feature discovery do.
func (k *Kubernetes) SetGPUs(t testing.TB, node, count int, product string) {
	t.Helper()
	n, path := strconv.Itoa(count), "/api/v1/nodes/"+nodeName(node)
	err := errors.Join(
		k.request(http.MethodPatch, path, "merge-patch", `{"metadata":{"labels":{"nvidia.com/gpu.product":"`+product+`"}}}`, nil),
		k.request(http.MethodPatch, path+"/status", "strategic-merge-patch", `{"status":{"capacity":{"nvidia.com/gpu":"`+n+`"},"allocatable":{"nvidia.com/gpu":"`+n+`"}}}`, nil))
	must.Succeed(t, err)
}

// Programs of a cluster that a test can kill.
const (
	APIServer = "apiserver"
	Kubelet   = "kubelet1" // of node-1
)

// Kill ends a program with kill -9. Without a kubelet, containers continue.
func (k *Kubernetes) Kill(t testing.TB, program string) {
	t.Helper()
	text := string(must.ReadFile(t, filepath.Join(k.dir, program+".pid")))
	pid := must.Do(strconv.Atoi(strings.TrimSpace(text)))(t)
	must.Succeed(t, must.Do(os.FindProcess(pid))(t).Kill())
}

// Restart restarts a killed program and waits until it answers.
func (k *Kubernetes) Restart(t testing.TB, program string) {
	t.Helper()
	url := k.url + "/readyz"
	if program == Kubelet {
		url = "https://" + k.address(1) + ":10250/healthz"
	}
	_, err := fmt.Fprintln(k.input, "begin", program)
	if err == nil {
		err = await(func() error { return send(http.MethodGet, url, "", "", nil) }, filepath.Join(k.dir, program+".log"))
	}
	must.Succeed(t, err, program)
}

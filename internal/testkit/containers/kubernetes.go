package containers

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"crypto/tls"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// Kubernetes is a cluster of one or two nodes: real API server, scheduler, kubelets and
// containers. It has no controllers: no object creates Pods, a new node keeps its taint
// node.kubernetes.io/not-ready, and a node stays ready after its kubelet has ended.
type Kubernetes struct {
	Kubeconfig string // path of the file; its user has all rights in the namespace default
	Namespace  string
	url        string
	dir        string
	network    int       // number of its network: see kubernetes.sh
	input      io.Writer // input of its supervisor
	nodes      int       // 1, or 2 after AddNode
}

var kubernetes = sync.OnceValues(startKubernetes)

// StartKubernetes returns the cluster of this test binary. If its programs are missing because
// `make kubernetes` hasn't built them, the test is skipped, or fails if clusterRequired.
func StartKubernetes(t testing.TB) *Kubernetes {
	t.Helper()
	if os.Getenv("KUBERNETES_APART") != "" {
		t.Skip("KUBERNETES_APART is set: make test-kubernetes runs the tests that need a cluster")
	}
	programs, err := kubernetesFolder()
	if err != nil {
		t.Skip(err)
	}
	if _, err := os.Stat(filepath.Join(programs, kubernetesPrograms[len(kubernetesPrograms)-1])); err != nil {
		skip := t.Skipf
		if clusterRequired() {
			skip = t.Fatalf
		}
		skip("Kubernetes %s is absent from %s: run `make kubernetes` to build it, which needs a network once", kubernetesVersion, programs)
	}
	if clusterRequired() {
		return must.Do(kubernetes())(t)
	}
	return startOrSkip(t, kubernetes)
}

// clusterRequired reports whether a make target runs tests of the cluster: then they fail without one.
func clusterRequired() bool {
	return os.Getenv("KUBERNETES_ROUNDS") != "" || os.Getenv("KUBERNETES_CONFORMANCE") != ""
}

//go:embed testdata/kubernetes.sh
var runKubernetes string

func startKubernetes() (*Kubernetes, error) {
	const packages = "etcd-server containerd runc openssl iproute2 containernetworking-plugins"
	if err := requirePrograms(packages, "etcd", "containerd", "ctr", "runc", "openssl", "ip", "/usr/lib/cni/ptp"); err != nil {
		return nil, err
	}
	programs, err := kubernetesFolder()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "gpucloud-kubernetes-")
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(4)
	if err != nil {
		return nil, err
	}
	k := &Kubernetes{Kubeconfig: filepath.Join(dir, "kubeconfig"), Namespace: "default", url: "https://127.0.0.1:" + ports[0], dir: dir, nodes: 1}
	if k.network, err = freeNetwork(); err != nil {
		return nil, err
	}
	if k.input, err = supervise(dir, runKubernetes, append([]string{programs, strconv.Itoa(k.network)}, ports...)...); err != nil {
		return nil, err
	}
	if err := k.makePause(); err != nil {
		return nil, err
	}
	return k, k.awaitNode(1)
}

// freePorts returns ports of loopback that are free now. A connection or listener without a chosen port doesn't get them.
func freePorts(n int) (ports []string, err error) {
	for len(ports) < n {
		port, err := run.FreePort(context.Background())
		if err != nil {
			return nil, err
		}
		if text := strconv.Itoa(port); !slices.Contains(ports, text) {
			ports = append(ports, text)
		}
	}
	return ports, nil
}

// pause is the program that keeps a Pod's namespaces alive.
const pause = `package main

import ("os"; "os/signal"; "syscall")

func main() { c := make(chan os.Signal, 1); signal.Notify(c, syscall.SIGTERM, syscall.SIGINT); <-c }
`

func (k *Kubernetes) makePause() error {
	dir := filepath.Join(k.dir, "pause")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := writeFile(dir, "main.go", pause, 0o600); err != nil {
		return err
	}
	if _, err := gobuild.RunGo(context.Background(), dir, "build", "-o", "pause", "main.go"); err != nil {
		return err
	}
	return k.loadPause(1)
}

// loadPause gives a node the image that the kubelet needs for each Pod.
func (k *Kubernetes) loadPause(node int) error {
	dir := filepath.Join(k.dir, "pause")
	program, err := os.ReadFile(filepath.Join(dir, "pause"))
	if err != nil {
		return err
	}
	layer, err := archive(map[string]string{"/pause": string(program)})
	if err != nil {
		return err
	}
	return k.load("localhost/pause:1", []string{"/pause"}, []int{node}, append(layer, endMarker...))
}

// Build gives each node an image with Python and files, as an engine's Build does.
func (k *Kubernetes) Build(t testing.TB, name string, cmd []string, files map[string]string) {
	t.Helper()
	base := must.ReadFile(t, must.Do(pythonTar())(t))
	layer := must.Do(archive(files))(t)
	must.Succeed(t, k.load(name, cmd, k.allNodes(), base, append(layer, endMarker...)))
}

// load gives nodes an image of layers.
func (k *Kubernetes) load(name string, cmd []string, nodes []int, layers ...[]byte) error {
	file, err := os.CreateTemp(k.dir, "image-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	w := tar.NewWriter(file)
	add := func(name string, text []byte) error {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))}); err != nil {
			return err
		}
		_, err := w.Write(text)
		return err
	}
	var names, digests []string
	for i, layer := range layers {
		names = append(names, fmt.Sprintf("layer-%d.tar", i))
		digests = append(digests, fmt.Sprintf("sha256:%x", sha256.Sum256(layer)))
		err = errors.Join(err, add(names[i], layer))
	}
	config, _ := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"Cmd": cmd}, "rootfs": map[string]any{"type": "layers", "diff_ids": digests},
	})
	manifest, _ := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{name}, "Layers": names}})
	if err := errors.Join(err, add("config.json", config), add("manifest.json", manifest), w.Close(), file.Close()); err != nil {
		return err
	}
	return k.importArchive(file.Name(), nodes)
}

var insecureClient = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // a certificate of its own, on loopback

// request sends a request to the API server; patch is the kind of a patch, such as merge-patch, or "".
func (k *Kubernetes) request(method, path, patch, body string, into any) error {
	return send(method, k.url+path, patch, body, into)
}

// send sends a request to any program of the cluster.
func send(method, url, patch, body string, into any) error {
	req, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer test")
	req.Header.Set("Content-Type", "application/json")
	if patch != "" {
		req.Header.Set("Content-Type", "application/"+patch+"+json")
	}
	resp, err := insecureClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= 300:
		return fmt.Errorf("%s %s: %d %s", method, url, resp.StatusCode, text)
	case into == nil:
		return nil
	}
	return json.Unmarshal(text, into)
}

// Get reads an object or a list of the API server.
func (k *Kubernetes) Get(t testing.TB, path string, into any) {
	t.Helper()
	must.Succeed(t, k.request(http.MethodGet, path, "", "", into))
}

// CreatePod creates a Pod that never runs, as an owner of other objects.
func (k *Kubernetes) CreatePod(t testing.TB, name string) {
	t.Helper()
	body := `{"metadata": {"name": "` + name + `"}, "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "localhost/pause:1"}]}}`
	must.Succeed(t, k.request(http.MethodPost, "/api/v1/namespaces/"+k.Namespace+"/pods", "", body, nil))
}

// DeletePod deletes a Pod, and waits until it is gone.
func (k *Kubernetes) DeletePod(t testing.TB, name string) {
	t.Helper()
	path := "/api/v1/namespaces/" + k.Namespace + "/pods/" + name
	must.Succeed(t, k.request(http.MethodDelete, path, "", `{"gracePeriodSeconds": 1}`, nil))
	err := await(func() error {
		err := k.request(http.MethodGet, path, "", "", nil)
		if err == nil {
			return fmt.Errorf("the Pod %s is still there", name)
		}
		if strings.Contains(err.Error(), ": 404 ") {
			return nil
		}
		return err
	}, filepath.Join(k.dir, Kubelet+".log"))
	must.Succeed(t, err)
}

// Gateway listens where Pods reach this machine, and forwards to a server on loopback.
type Gateway struct {
	URL    string
	target atomic.Pointer[string]
}

func (k *Kubernetes) NewGateway(t testing.TB) *Gateway {
	t.Helper()
	l, err := net.Listen("tcp", k.address(1)+":0") //nolint:noctx // it ends with the test
	must.Succeed(t, err)
	t.Cleanup(func() { _ = l.Close() })
	g := &Gateway{URL: "http://" + l.Addr().String()}
	g.Forward("")
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go forward(from, *g.target.Load())
		}
	}()
	return g
}

// Forward sets the address that new connections are forwarded to.
func (g *Gateway) Forward(address string) { g.target.Store(&address) }

func forward(from net.Conn, target string) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", target) //nolint:noctx // on loopback
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(pair[1], pair[0])
			done <- struct{}{}
		}()
	}
	<-done
}

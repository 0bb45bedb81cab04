package containers

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Programs of a cluster that a test can kill.
const (
	APIServer = "apiserver"
	Kubelet   = "kubelet1" // of node-1
)

// Kill ends a program with kill -9. Without a kubelet, containers continue.
func (k *Kubernetes) Kill(t testing.TB, program string) {
	t.Helper()
	text := string(must.ReadFile(t, filepath.Join(k.dir, program+".pid")))
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	must.Succeed(t, err)
	process, err := os.FindProcess(pid)
	if err == nil {
		err = process.Kill()
	}
	must.Succeed(t, err)
}

// Begin restarts a killed program and waits until it answers.
func (k *Kubernetes) Begin(t testing.TB, program string) {
	t.Helper()
	url := k.url + "/readyz"
	if program == Kubelet {
		url = "https://" + k.address(1) + ":10250/healthz"
	}
	_, err := fmt.Fprintln(k.input, "begin", program)
	if err == nil {
		err = await(func() error { return k.healthy(url) }, filepath.Join(k.dir, program+".log"))
	}
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
}

func (k *Kubernetes) healthy(url string) error {
	req, err := http.NewRequest(http.MethodGet, url, http.NoBody) //nolint:noctx // the client has a limit
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer test")
	resp, err := insecure.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}

package mgmt_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// paddedPod returns the body of a pod, padded to a size.
func paddedPod(size int, more string) string {
	body := `{"name":"p","cpu":{"id":"cpu3c","vcpuCount":2},"env":{"A":"%s"}` + more + `}`
	return fmt.Sprintf(body, strings.Repeat("x", size-len(body)+len("%s")))
}

// A body that is too large gets 413 with any key, even if its length isn't declared.
func TestPodBodySize(t *testing.T) {
	d := deploy(t)
	largest, larger := paddedPod(contract.MaxPodBody, `,"image":"i"`), paddedPod(contract.MaxPodBody+1, `,"image":"i"`)
	d.mustSend(201, "POST", "/v2/pods", largest)
	for _, key := range []string{"Bearer " + testKey, "Bearer wrong", ""} {
		got := d.sendWith("POST", "/v2/pods", larger, http.Header{"Authorization": {key}})
		if got.status != 413 || got.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(got.text, "102400") {
			t.Errorf("with the key %q: %d %s", key, got.status, got.text)
		}
	}
	got := d.sendWith("POST", "/v2/pods", largest, http.Header{})
	must.Hold(t, got.status == 401, "the largest body without a key", got.status, got.text)
	for body, want := range map[string]string{larger: "413", largest: "401"} {
		got := d.sendChunked(body)
		must.Hold(t, strings.Contains(got, want), len(body), "bytes in chunks without a key", got, want)
	}
	// Other operations have other limits.
	d.mustSend(201, "POST", "/v1/pods", map[string]any{"imageName": "i", "env": map[string]string{"A": strings.Repeat("x", contract.MaxPodBody)}})
	id := d.create("/v2/pods", `{"name":"p","image":"i","cpu":{"id":"cpu3c","vcpuCount":2}}`)
	d.mustSend(200, "PATCH", "/v2/pods/"+id, map[string]any{"env": map[string]string{"A": strings.Repeat("x", contract.MaxPodBody)}})
}

// sendChunked creates a pod without a key and without Content-Length, and returns the status line.
func (d *deployment) sendChunked(body string) string {
	d.Helper()
	conn := must.Do((&net.Dialer{}).DialContext(d.Context(), "tcp", strings.TrimPrefix(d.url, "http://")))(d)
	defer conn.Close()
	go fmt.Fprintf(conn, "POST /v2/pods HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	line := must.Do(bufio.NewReader(conn).ReadString('\n'))(d)
	return line
}

// The limit includes the settings of the template that the body doesn't override.
func TestPodBodySizeWithTemplate(t *testing.T) {
	d := deploy(t)
	template := func(name string, bytes int) string {
		return d.create("/v2/templates", map[string]any{"name": name, "image": "i", "args": "a", "env": map[string]string{"A": strings.Repeat("t", bytes), "B": "b"}})
	}
	small, large := template("small", 50_000), template("large", 150_000)
	pod := func(template string, bytes int, more string) string {
		return paddedPod(bytes, `,"templateId":"`+template+`"`+more)
	}
	d.mustSend(201, "POST", "/v2/pods", pod(small, 100_000, "")) // its A replaces that of the template
	d.mustSend(201, "POST", "/v2/pods", pod(large, 1_000, ""))
	other := func(template string, bytes int) string {
		return strings.Replace(pod(template, bytes, ""), `{"A":`, `{"C":`, 1)
	}
	d.mustSend(201, "POST", "/v2/pods", other(small, 50_000))
	for _, body := range []string{other(small, 60_000), other(large, 1_000), `{"name":"p","cpu":{"id":"cpu3c","vcpuCount":2},"templateId":"` + large + `"}`} {
		d.expectRefusal(413, `with the settings of template`, "POST", "/v2/pods", body)
	}
	got := d.mustSend(200, "GET", "/v2/pods", "").get("pods").([]any)
	must.Hold(t, len(got) == 3, len(got), "pods")
}

// A pod's requirements on the machine show in its answer.
func TestPodGPUMachine(t *testing.T) {
	d := deploy(t)
	got := d.mustSend(201, "POST", "/v2/pods", `{"name":"p","image":"i","gpu":{"id":"NVIDIA L4","count":2,"minRamPerGpu":3000,"minVcpuCountPerGpu":5000}}`)
	d.expectMembers(got, map[string]string{"gpu": `{"id":"NVIDIA L4","count":2,"vcpuCount":10000,"memory":6000}`})
	least := d.mustSend(201, "POST", "/v2/pods", gpuPod)
	for _, member := range []string{"gpu.vcpuCount", "gpu.memory"} {
		if n, _ := least.get(member).(float64); n < 1 {
			t.Errorf("%s is %v, want at least 1", member, least.get(member))
		}
	}
	for _, member := range []string{`"vcpuCount":2`, `"memory":8`, `"minRamPerGpu":0`, `"minRamPerGpu":1.5`, `"minVcpuCountPerGpu":0`, `"minVcpuCountPerGpu":"1"`, `"minVcpuCountPerGpu":null`} {
		d.expectRefusal(422, strings.SplitN(member, `"`, 3)[1], "POST", "/v2/pods", `{"name":"p","image":"i","gpu":{"id":"NVIDIA L4",`+member+`}}`)
	}
	id, _ := got.get("id").(string)
	d.expectRefusal(422, "gpu", "PATCH", "/v2/pods/"+id, `{"gpu":{"minRamPerGpu":1}}`)
}

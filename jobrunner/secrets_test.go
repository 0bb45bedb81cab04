package jobrunner_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// The log never has a client's secrets, even if their requests are rejected.
func TestLogHasNoSecret(t *testing.T) {
	d := deployWith(t, jobrunner.Config{DataDir: t.TempDir()})
	_, _, endpoint := d.do("POST", "/v2/serverless", `{"name":"e","image":"builtin/echo","env":{"TOKEN":"planted-env"}}`)
	_, id, _ := strings.Cut(endpoint, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	for _, r := range []struct{ method, path, body string }{
		{"POST", "/v2/registries", `{"name":"r","username":"u","password":"planted-password"}`},
		{"POST", "/v2/registries", `{"name":"r","username":"u","password":"planted-password"}`},
		{"POST", "/v1/containerregistryauth", `{"password":{"planted-password":1}}`},
		{"POST", "/v2/account/secrets", `{"name":"s","value":"planted-secret","description":"planted-text"}`},
		{"POST", "/v2/account/secrets", `{"name":"S","value":"planted-secret"}`},
		{"POST", "/v2/account/secrets", `{"name":{"planted-secret":1},"value":{"planted-secret":"planted-secret"}}`},
		{"PATCH", "/v2/account/secrets/x", `{"value":"planted-secret"`},
		{"POST", "/v1/templates", `{"name":"t","imageName":"i","env":{"TOKEN":["planted-env"]}}`},
		{"GET", "/v2/templates?api_key=planted-query", ""},
		{"POST", "/v2/" + id + "/runsync?key=planted-query", `{"input":{"token":"planted-input"},"s3Config":{"accessSecret":"planted-s3"},"webhook":"http://127.0.0.1:1/?token=planted-hook"}`},
		{"POST", "/v2/" + id + "/run", `{"input":{},"webhook":"http://user:planted-hook@10.0.0.1/planted-hook"}`},
		{"POST", "/v2/" + id + "/run", `{"input":"planted-input"`},
		{"POST", "/v2/" + id + "/job-done/w/j?token=planted-query", `{"output":"planted-input"}`},
		{"POST", "/ui/session", `{"key":"planted-key"}`},
		{"POST", "/ui/session", `{"key":"planted-other-key"}`},
	} {
		d.do(r.method, r.path, r.body)
	}
	d.exchange("GET", "/v2/templates", "", func(r *http.Request) { r.Header.Set("Authorization", "Basic planted-wrong-key") })
	text := d.log.Await(t, "a webhook call failed", 1)
	must.Hold(t, !strings.Contains(text, "planted-") && strings.Contains(text, "/runsync"), "the log says", text)
}

// No route allows pages of other sites to read its responses.
func TestNoOtherSiteReads(t *testing.T) {
	d := deployWith(t, jobrunner.Config{AdminClock: true, Remote: true})
	for _, path := range []string{"/", "/ui/snapshot", "/ui/session", "/metrics", "/clock", "/v1/templates", "/v2/templates", "/v2/ep/run", "/live/v2/ep/run", "/v2/ep/job-take/w"} {
		for _, method := range []string{"OPTIONS", "GET", "POST"} {
			resp, _ := d.exchange(method, path, "", func(r *http.Request) {
				for name, value := range map[string]string{"Authorization": "Bearer planted-key", "Origin": "https://evil.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"} {
					r.Header.Set(name, value)
				}
			})
			for name := range resp.Header {
				must.Hold(t, !strings.HasPrefix(name, "Access-Control-"), method, path, name, "is", resp.Header.Get(name))
			}
		}
	}
}

// A foreign host name for this machine (DNS rebinding) gets no access to profiles, metrics and the page.
func TestForeignHostNamesAreRejected(t *testing.T) {
	d := deployWith(t, jobrunner.Config{Profile: true})
	for _, path := range []string{"/", "/ui/snapshot", "/metrics", "/debug/pprof/", "/debug/pprof/heap"} {
		for host, want := range map[string]bool{"evil.example": false, "evil.example:8420": false, "127.0.0.1.evil.example": false, "": true} {
			resp, _ := d.exchange("GET", path, "", func(r *http.Request) { r.Host = host }) // with "", the client sends the address
			must.Equal(t, resp.StatusCode != http.StatusMisdirectedRequest, want, "whether the host", host, "is accepted at", path, resp.StatusCode)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} { // a proxy probes under its own name
		resp, _ := d.exchange("GET", path, "", func(r *http.Request) { r.Host = "jobs.example.com" })
		must.Hold(t, resp.StatusCode == http.StatusOK, path, "behind a proxy:", resp.Status)
	}
}

const secretEnv = `"env":{"A":"{{ RUNPOD_SECRET_token }}","B":"b={{RUNPOD_SECRET_TOKEN}}","C":"{{ RUNPOD_SECRET_absent }}"}`

// Workers and pods get a secret's value at their start, and keep it. Only their process sees it.
func TestAccountSecrets(t *testing.T) {
	testEachDatabase(t, func(t *testing.T, c jobrunner.Config) {
		if c.DatabaseURL != "" {
			c.SecretKeyFile = filepath.Join(t.TempDir(), "key")
		}
		d := deployWith(t, c)
		secret := "/v2/account/secrets/" + d.must(201, "POST", "/v2/account/secrets", `{"name":"token","value":"planted-first","description":"d"}`).member("id").(string)
		template := d.must(201, "POST", "/v2/templates", `{"name":"t","image":"builtin/conformance","disk":5,"serverless":true,`+secretEnv+`}`).member("id").(string)
		endpoint := d.must(201, "POST", "/v2/serverless", `{"name":"e","templateId":"`+template+`","workers":{"min":1,"max":1}}`).member("id").(string)
		pod := d.must(201, "POST", "/v2/pods", `{"name":"p","image":"builtin/conformance",`+onCPU+`,"entrypoint":["env","A"],"cmd":["env","B","env","C","print","done"],`+secretEnv+`}`).member("id").(string)
		d.awaitPod(pod, "RUNNING") // with the secret's first value
		readEnv := func() string {
			got := d.must(200, "POST", "/v2/"+endpoint+"/runsync", `{"input":{"op":"env","names":["A","B","C"]}}`)
			return string(must.Do(json.Marshal(got.member("output")))(t))
		}
		restartWorker := func() {
			before := d.workerID(endpoint)
			d.must(200, "PATCH", "/v2/serverless/"+endpoint, `{"workers":{"min":0,"max":0}}`)
			waitFor(t, func() (bool, any) { id := d.workerID(endpoint); return id != before, id })
			d.must(200, "PATCH", "/v2/serverless/"+endpoint, `{"workers":{"min":1,"max":1}}`)
		}
		first := `{"A":"planted-first","B":"b=planted-first","C":""}`
		must.Equal(t, readEnv(), first, "the variables of a worker")
		d.must(200, "PATCH", secret, `{"value":"planted-second"}`)
		must.Equal(t, readEnv(), first, "the variables of a running worker after the change")
		restartWorker()
		must.Equal(t, readEnv(), strings.ReplaceAll(first, "first", "second"), "the variables of a new worker after the change")
		d.must(204, "DELETE", secret, "")
		restartWorker()
		must.Equal(t, readEnv(), `{"A":"","B":"b=","C":""}`, "the variables of a new worker without the secret")
		visibleText := d.log.String()
		for _, path := range []string{"/v2/pods", "/v2/pods/" + pod, "/v2/templates/" + template, "/v2/serverless/" + endpoint, "/v1/pods", "/v1/endpoints?includeWorkers=true", "/metrics", "/ui/snapshot"} {
			_, _, text := d.do("GET", path, "")
			visibleText += text
		}
		req := must.Do(http.NewRequestWithContext(t.Context(), "GET", d.url+"/v2/pods/"+pod+"/logs", nil))(t)
		req.Header.Set("Authorization", "Bearer planted-key")
		resp := must.Do(http.DefaultClient.Do(req))(t)
		defer resp.Body.Close()
		log := ""
		for lines := bufio.NewScanner(resp.Body); !strings.Contains(log, "done") && lines.Scan(); {
			log += lines.Text() + "\n"
		}
		visibleText += log
		must.Hold(t, !strings.Contains(visibleText, "planted-first") && !strings.Contains(visibleText, "planted-second") && strings.Contains(visibleText, "{{ RUNPOD_SECRET_token }}"), "logs and responses have a secret's value, or no placeholder:", visibleText)
		must.Contain(t, log, "A=(secret)", "B=b=(secret)", "C=")
	})
}

// workerID returns the id of an endpoint's only worker, or "".
func (d *deployment) workerID(endpoint string) string {
	workers, _ := d.must(200, "GET", "/v2/serverless/"+endpoint+"/workers", "").member("workers").([]any)
	if len(workers) == 0 {
		return ""
	}
	return workers[0].(map[string]any)["id"].(string)
}

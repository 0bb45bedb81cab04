package page_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

const onCPU = `"cpu":{"id":"cpu3c","vcpuCount":2}`

// createObject sends a request that creates an object, and returns its id.
func (d *deployment) createObject(path, body string) string {
	d.t.Helper()
	resp, response := d.send(http.MethodPost, path, body, bearer(key))
	id, _ := response["id"].(string)
	must.Require(d.t, resp.StatusCode == http.StatusCreated && id != "", "POST", path, "was answered with", resp.StatusCode, response)
	return id
}

func bearer(key string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + key, "Content-Type": "application/json"}
}

func (d *deployment) createPod(name string) string {
	d.t.Helper()
	return d.createObject("/v2/pods", `{"name":`+quoted(name)+`,"image":"builtin/echo","args":"print hello",`+onCPU+`}`)
}

func (d *deployment) awaitPod(id, status string) {
	d.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		_, pod := d.send(http.MethodGet, "/v2/pods/"+id, "", bearer(key))
		if pod["status"] == status {
			return
		}
		must.Require(d.t, !time.Now().After(end), "the pod isn't", status, "within a minute, but", pod)
	}
}

func (d *deployment) snapshot(key, query string) (text string, data snapshotData) {
	d.t.Helper()
	resp, body := d.send(http.MethodGet, "/ui/snapshot"+query, "", bearer(key))
	must.Require(d.t, resp.StatusCode == http.StatusOK, "the snapshot", query, "was answered with", resp.StatusCode, body)
	raw, err := json.Marshal(body)
	if err == nil {
		err = json.Unmarshal(raw, &data)
	}
	must.Succeed(d.t, err)
	return string(raw), data
}

// snapshotData is the part of a snapshot that tests read.
type snapshotData struct {
	Pods struct {
		Total, Found int
		States       map[string]int
		List         []struct {
			ID, Name, Status string
			Actions          []string
		}
	}
	Keys *struct {
		Total int
		Fault string
		List  []struct {
			Name, Owner, Management, Jobs string
			Endpoints                     []string
			Expires                       time.Time
			Expired                       bool
		}
	}
	Volumes, Clusters, Releases *struct{ Total int }
}

func (d *deployment) addKey(k apikey.Key) string {
	d.t.Helper()
	return must.Do(apikey.FileIn(d.dir).Add(k))(d.t)
}

// With a scope in both APIs, a key may do on the page what it may do in the APIs. A rejected action changes nothing.
func TestActionsHaveTheAuthorityOfTheKey(t *testing.T) {
	d := deploy(t)
	work := d.createEndpoint("work", "example/unmapped", 1)
	job, batch := d.submitJob(work, `{}`), d.createBatch(work, "", `{}`)
	pod := d.createPod("p")
	d.awaitPod(pod, "RUNNING")
	operations := []struct {
		name, query, method, path, body string
		management                      bool
	}{
		{"stop-pod", "id=" + pod, "POST", "/v2/pods/" + pod + "/action", `{"action":"stop"}`, true},
		{"restart-pod", "id=" + pod, "POST", "/v2/pods/" + pod + "/action", `{"action":"restart"}`, true},
		{"start-pod", "id=" + pod, "POST", "/v2/pods/" + pod + "/action", `{"action":"start"}`, true},
		{"stop-endpoint", "endpoint=" + work, "PATCH", "/v2/serverless/" + work, `{"workers":{"min":0,"max":0}}`, true},
		{"cancel", "endpoint=" + work + "&id=" + job, "POST", "/v2/" + work + "/cancel/" + job, "", false},
		{"retry", "endpoint=" + work + "&id=" + job, "POST", "/v2/" + work + "/retry/" + job, "", false},
		{"purge-queue", "endpoint=" + work, "POST", "/v2/" + work + "/purge-queue", "", false},
		{"cancel-batch", "endpoint=" + work + "&id=" + batch, "POST", "/v2/" + work + "/batch/" + batch + "/cancel", "", false},
	}
	scopes := []apikey.Scope{apikey.None, apikey.Read, apikey.All}
	for _, management := range scopes {
		for _, jobs := range scopes {
			name := fmt.Sprintf("m-%s-j-%s", management, jobs)
			k := d.addKey(apikey.Key{Name: name, Management: management, Jobs: jobs})
			mayOpenPage := management != apikey.None && jobs != apikey.None
			for _, op := range operations {
				allowed := jobs == apikey.All
				if op.management {
					allowed = management == apikey.All
				}
				if mayOpenPage && allowed {
					continue // allowed actions follow below
				}
				resp, body := d.send(http.MethodPost, "/ui/call?op="+op.name+"&"+op.query, "", bearer(k))
				if !mayOpenPage {
					must.Equal(t, resp.StatusCode, http.StatusUnauthorized, "status of", op.name, "with the key", name, "and the answer", body)
					continue
				}
				direct, reason := d.send(op.method, op.path, op.body, bearer(k))
				must.Hold(t, resp.StatusCode == http.StatusForbidden && direct.StatusCode == resp.StatusCode && fmt.Sprint(body) == fmt.Sprint(reason) && strings.Contains(fmt.Sprint(body), "may only read"), op.name, "with the key", name, "is answered by the page with", resp.StatusCode, body, "and by the API with", direct.StatusCode, reason)
			}
		}
	}
	d.awaitPod(pod, "RUNNING")
	_, e := d.send("GET", "/v2/serverless/"+work, "", bearer(key))
	must.Hold(t, fmt.Sprint(e["workers"].(map[string]any)["max"]) == "1", "a rejected action stopped the endpoint:", e)
	_, health := d.send("GET", "/v2/"+work+"/health", "", bearer(key))
	must.Hold(t, strings.Contains(fmt.Sprint(health), "inQueue:1"), "a rejected action removed the job:", health)

	// A key for management can stop, and a key for jobs can purge.
	manager, user := d.addKey(apikey.Key{Name: "manager", Jobs: apikey.Read}), d.addKey(apikey.Key{Name: "user", Management: apikey.Read})
	for _, c := range []struct {
		key, query string
		status     int
		want       string
	}{
		{manager, "op=stop-pod&id=" + pod, 200, "EXITED"},
		{manager, "op=stop-pod&id=" + pod, 409, "can't stop"},
		{manager, "op=restart-pod&id=" + pod, 409, "it allows"},
		{manager, "op=start-pod&id=" + pod, 200, "PROVISIONING"},
		{manager, "op=stop-endpoint&endpoint=" + work, 200, "max:0"},
		{user, "op=retry&endpoint=" + work + "&id=" + job, 400, ""},
		{user, "op=purge-queue&endpoint=" + work, 200, "removed:1"},
		{user, "op=cancel&endpoint=" + work + "&id=" + job, 404, ""},
		{user, "op=cancel-batch&endpoint=" + work + "&id=" + batch, 200, "CANCELLED"},
		{user, "op=cancel-batch&endpoint=" + work + "&id=nothing", 404, "no such batch"},
	} {
		resp, body := d.send(http.MethodPost, "/ui/call?"+c.query, "", bearer(c.key))
		must.Hold(t, resp.StatusCode == c.status && strings.Contains(fmt.Sprint(body), c.want), c.query, "is answered", resp.StatusCode, body, "want", c.status, c.want)
	}
}

// Requests that other sites trigger in a browser, and requests without a session or key, can't act.
func TestOnlyThePageCanAct(t *testing.T) {
	d := deploy(t)
	pod, work := d.createPod("p"), d.createEndpoint("work", "example/unmapped", 1)
	job, batch := d.submitJob(work, `{}`), d.createBatch(work, "", `{}`)
	d.awaitPod(pod, "RUNNING")
	signIn := func(body string) (cookie string) {
		resp, _ := d.send(http.MethodPost, "/ui/session", body, nil)
		cookie, _, _ = strings.Cut(resp.Header.Get("Set-Cookie"), ";")
		return cookie
	}
	ownerCookie := signIn(`{"code":"` + d.code + `"}`)
	readerCookie := signIn(`{"key":"` + d.addKey(apikey.Key{Name: "reader", Management: apikey.Read, Jobs: apikey.Read}) + `"}`)
	for _, query := range []string{"op=stop-pod&id=" + pod, "op=restart-pod&id=" + pod, "op=stop-endpoint&endpoint=" + work, "op=purge-queue&endpoint=" + work, "op=cancel&endpoint=" + work + "&id=" + job, "op=cancel-batch&endpoint=" + work + "&id=" + batch} {
		for _, c := range []struct {
			method string
			header map[string]string
			status int
		}{
			{"POST", nil, 401},
			{"POST", map[string]string{"Cookie": "gpucloud-page=x"}, 401},
			{"POST", map[string]string{"Cookie": ownerCookie, "Origin": "http://evil.example"}, 403},
			{"POST", map[string]string{"Cookie": ownerCookie, "Origin": "null"}, 403},
			{"POST", map[string]string{"Cookie": ownerCookie, "Origin": "http://127.0.0.1:1"}, 403},
			{"POST", map[string]string{"Cookie": ownerCookie, "Sec-Fetch-Site": "cross-site"}, 403},
			{"POST", map[string]string{"Cookie": ownerCookie, "Sec-Fetch-Site": "same-site"}, 403},
			{"GET", map[string]string{"Cookie": ownerCookie}, 405},
			{"POST", map[string]string{"Cookie": readerCookie}, 403},
		} {
			resp, body := d.send(c.method, "/ui/call?"+query, "", c.header)
			must.Hold(t, resp.StatusCode == c.status, c.method, query, "with", c.header, "was answered with", resp.StatusCode, body, "expected", c.status)
		}
	}
	d.awaitPod(pod, "RUNNING")
	resp, body := d.send(http.MethodPost, "/ui/call?op=stop-pod&id="+pod, "", map[string]string{"Cookie": ownerCookie, "Origin": d.url, "Sec-Fetch-Site": "same-origin"})
	must.Hold(t, resp.StatusCode == 200 && body["status"] == "EXITED", "a request of the page itself was answered with", resp.StatusCode, body)
}

// The deployment's log shows an action like a request of any client.
func TestActionsAreLogged(t *testing.T) {
	var log bytes.Buffer
	d := deployWith(t, jobrunner.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	pod := d.createPod("p")
	d.send(http.MethodPost, "/ui/call?op=stop-pod&id="+pod, "", bearer(key))
	d.snapshot(key, "")
	d.Close()
	text := log.String()
	must.Hold(t, strings.Contains(text, "POST /v2/pods/"+pod+"/action\" status=200") && !strings.Contains(text, "/ui/"), "expected the action and no path of the page in the log", text)
}

// A key with all rights lists all keys, another key those of its owner, without any secret or hash.
func TestKeysShown(t *testing.T) {
	d := deploy(t)
	end := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	ada := d.addKey(apikey.Key{Name: "ada", Management: apikey.Read, Jobs: apikey.Read, Expires: end})
	adaCI := d.addKey(apikey.Key{Name: "ada-ci", Owner: "ada", Endpoints: []string{"ep1"}})
	bob := d.addKey(apikey.Key{Name: "bob"})
	secrets := []string{key, ada, adaCI, bob, "sha256"}
	stored := must.Do(apikey.FileIn(d.dir).List())(t)
	for _, k := range stored {
		hash, _ := k.Hash.MarshalText()
		secrets = append(secrets, string(hash))
	}
	for _, c := range []struct{ who, key, want string }{
		{"the deployment's own", key, " ada ada-ci bob"}, // its own name is empty
		{"bob", bob, " ada ada-ci bob"},
		{"ada", ada, "ada ada-ci"},
	} {
		text, data := d.snapshot(c.key, "")
		var names []string
		for _, k := range data.Keys.List {
			names = append(names, k.Name)
			if k.Name == "ada" && (k.Management != "read" || k.Jobs != "read" || k.Owner != "ada" || !k.Expires.Equal(end) || k.Expired) ||
				k.Name == "ada-ci" && (k.Management != "none" || k.Jobs != "all" || k.Owner != "ada" || fmt.Sprint(k.Endpoints) != "[ep1]" || !k.Expires.IsZero()) {
				t.Errorf("%s sees %+v", c.who, k)
			}
		}
		slices.Sort(names) // keys created in the same second have no order
		got := strings.Join(names, " ")
		must.Hold(t, got == c.want && data.Keys.Total == len(names), c.who, "sees the keys", got, "of", data.Keys.Total, "expected", c.want)
		for _, secret := range secrets {
			must.Hold(t, !strings.Contains(text, secret), "the page of", c.who, "contains the secret", secret)
		}
	}
}

// If the file of keys can't be read, the page says so and shows the rest.
func TestUnreadableKeys(t *testing.T) {
	d := deploy(t)
	d.addKey(apikey.Key{Name: "ada"})
	must.Succeed(t, os.WriteFile(filepath.Join(d.dir, apikey.FileName), []byte(`{"keys": 1}`), 0o600))
	_, data := d.snapshot(key, "")
	must.Hold(t, data.Keys.Total == 1 && strings.Contains(data.Keys.Fault, "Until that is repaired"), "expected the deployment's own key and a fault and got", data.Keys)
}

// A release of an endpoint lists its changes, and only the names of variables.
func TestReleasesShown(t *testing.T) {
	d := deploy(t)
	id := d.createObject("/v2/serverless", `{"name":"e","image":"builtin/echo","env":{"KEPT":"k","TOKEN":"secret-before","GONE":"secret-gone"},"workers":{"min":0,"max":1}}`)
	resp, body := d.send("PATCH", "/v2/serverless/"+id, `{"image":"builtin/conformance","env":{"KEPT":"k","TOKEN":"secret-after"}}`, bearer(key))
	must.Require(t, resp.StatusCode == 200, "changing the endpoint was answered with", body)
	text, data := d.snapshot(key, "?endpoint="+id)
	must.Contain(t, text, "env: GONE, TOKEN", "imageName: builtin/echo → builtin/conformance")
	must.Hold(t, !strings.Contains(text, "secret-"), "a value of a variable is shown in", text)
	must.Hold(t, data.Releases != nil && data.Releases.Total == 2 && data.Keys == nil && data.Volumes == nil, "expected two releases and no keys or volumes in the endpoint's snapshot and got", data)
}

package api_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// requestsByMethod has, by method, a function that sends one request.
var requestsByMethod = map[string]func(context.Context, *api.Client) error{
	"GET":    func(ctx context.Context, c *api.Client) error { return must.Err(c.NetworkVolumes.Get(ctx, "a")) },
	"DELETE": func(ctx context.Context, c *api.Client) error { return c.NetworkVolumes.Delete(ctx, "a") },
	"PATCH": func(ctx context.Context, c *api.Client) error {
		return must.Err(c.NetworkVolumes.Update(ctx, api.NetworkVolume{ID: "a", Size: 10}, api.NetworkVolume{Size: 20}))
	},
	"POST": func(ctx context.Context, c *api.Client) error {
		return must.Err(c.NetworkVolumes.Create(ctx, api.NetworkVolume{Size: 20}))
	},
}

// hangUp closes the connection after it has read the request.
func hangUp(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		conn.Close()
	}
}

// cutOff closes the connection in the middle of the answer.
func cutOff(w http.ResponseWriter, _ *http.Request) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err == nil {
		buf.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"id\":")
		buf.Flush()
		conn.Close()
	}
}

// stall answers after the time-out.
func stall(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestRetryByMethodAndFailure(t *testing.T) {
	const once, failures, waits = 1, 4, 13 // the tries of a request that isn't repeated, that failed, and that must wait
	for _, c := range []struct {
		name        string
		fail        http.HandlerFunc
		tries       int // of GET, PATCH and DELETE
		triesOfPost int
	}{
		{"400", answer(400, ``), once, once},
		{"401", answer(401, ``), once, once},
		{"403", answer(403, ``), once, once},
		{"409", answer(409, ``), once, once},
		{"422", answer(422, ``), once, once},
		{"429", answer(429, ``), waits, waits},
		{"429 with Retry-After", answer(429, ``, "Retry-After", "3"), waits, waits},
		{"429 with Retry-After 0", answer(429, ``, "Retry-After", "0"), waits, waits},
		{"429 with Retry-After of an hour", answer(429, ``, "Retry-After", "3600"), once, once},
		{"429 with a huge Retry-After", answer(429, ``, "Retry-After", "99999999999999999999"), once, once},
		{"500", answer(500, ``), failures, once},
		{"501", answer(501, ``), once, once},
		{"502", answer(502, ``), failures, once},
		{"503", answer(503, ``), failures, once},
		// If no new object is found, a create that may have been processed is sent again, as often as after failures.
		{"503 with Retry-After", answer(503, ``, "Retry-After", "1"), waits, failures},
		{"503 with a broken Retry-After", answer(503, ``, "Retry-After", "soon"), failures, once},
		{"504", answer(504, ``), failures, once},
		{"connection lost after sending", hangUp, failures, once},
		{"answer cut off", cutOff, failures, once},
		{"no answer in time", stall, failures, once},
	} {
		for method, send := range requestsByMethod {
			runInBubble(t, c.name+"/"+method, func(t *testing.T) {
				client, d := deployPiped(t, api.V2, c.fail)
				d.emptyLists = true
				err := send(t.Context(), client)
				failure, ok := errors.AsType[*api.Error](err)
				must.Require(t, ok, "got", err, "want an *api.Error")
				want := c.tries
				if method == "POST" {
					want = c.triesOfPost
				}
				n := len(d.requests())
				must.Hold(t, n == want && (failure.Tries == want || failure.Tries == 1), n, "requests were sent, and the error tells of", failure.Tries, "tries; want", want, err)
			})
		}
	}
}

// failingDial fails to connect, and counts the attempts.
type failingDial struct {
	err   error
	dials int
}

func (f *failingDial) RoundTrip(*http.Request) (*http.Response, error) {
	f.dials++
	return nil, f.err
}

func TestFailedDialIsRepeated(t *testing.T) {
	for _, c := range []struct {
		err    error
		want   int
		remedy string
	}{
		{&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}, 4, "Check that the deployment is running"},
		{&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}, 1, "Check that the deployment is running"},
		{&net.OpError{Op: "dial", Net: "tcp", Err: &tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: new(x509.Certificate), Host: "name"}}}, 1, "its address is right"},
		{&net.OpError{Op: "dial", Net: "tcp", Err: &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}}, 1, "renew it, or set this machine's clock"},
		{&net.OpError{Op: "dial", Net: "tcp", Err: http.ErrSchemeMismatch}, 4, "start the address with http://"},
		{&net.OpError{Op: "proxyconnect", Net: "tcp", Err: syscall.ECONNREFUSED}, 4, "Check the proxy in HTTPS_PROXY"},
	} {
		for method, send := range requestsByMethod {
			synctest.Test(t, func(t *testing.T) {
				dial := &failingDial{err: c.err}
				err := send(t.Context(), client(t, api.Settings{BaseURL: "http://deployment", Transport: dial}))
				must.Equal(t, dial.dials, c.want, method, c.err, "tries")
				must.ErrorContains(t, err, c.remedy)
			})
		}
	}
}

func TestUntrustedCertificateIsNotRepeated(t *testing.T) {
	server := httptest.NewUnstartedServer(&deployment{answers: []http.HandlerFunc{answer(200, `{"id":"a"}`)}})
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	_, err := client(t, api.Settings{BaseURL: server.URL}).Templates.Get(t.Context(), "a")
	failure, ok := errors.AsType[*api.Error](err)
	must.Hold(t, ok && failure.Tries == 1 && strings.Contains(err.Error(), "set SSL_CERT_FILE"), "expected an error that names SSL_CERT_FILE after one try and got", err)
}

func TestSuccessAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, d := deployPiped(t, api.V2, answer(500, ``), hangUp, cutOff, answer(200, `{"id":"a","size":20}`))
		got, err := client.NetworkVolumes.Get(t.Context(), "a")
		must.Hold(t, err == nil && got.Size == 20 && len(d.requests()) == 4, "got", got, err, "after", len(d.requests()), "requests")
	})
}

// The pauses between the tries follow Retry-After.
func TestRetryAfterIsObeyed(t *testing.T) {
	date := func(after time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			answer(429, ``, "Retry-After", time.Now().Add(after).UTC().Format(http.TimeFormat))(w, r)
		}
	}
	// The server's clock is an hour ahead of the client's.
	ahead := func(w http.ResponseWriter, r *http.Request) {
		now := time.Now().Add(time.Hour).UTC()
		answer(503, ``, "Date", now.Format(http.TimeFormat), "Retry-After", now.Add(11*time.Second).Format(http.TimeFormat))(w, r)
	}
	for name, c := range map[string]struct {
		fail http.HandlerFunc
		want time.Duration
	}{
		"429, seconds":         {answer(429, ``, "Retry-After", "7"), 7 * time.Second},
		"503, seconds":         {answer(503, ``, "Retry-After", "61"), 61 * time.Second},
		"429, date":            {date(9 * time.Second), 9 * time.Second},
		"503, another's clock": {ahead, 11 * time.Second},
	} {
		for method, send := range requestsByMethod {
			success := answer(200, `{"id":"a"}`)
			if method == http.MethodDelete {
				success = answer(204, ``)
			}
			runInBubble(t, name+"/"+method, func(t *testing.T) {
				client, d := deployPiped(t, api.V2, c.fail, c.fail, success)
				d.emptyLists = true
				must.Succeed(t, send(t.Context(), client))
				seen := d.requests()
				must.Require(t, len(seen) == 3, len(seen), "requests, want 3")
				for i := range 2 {
					// Before a create is sent again, the client looks for its result.
					looks := method == "POST" && strings.HasPrefix(name, "503")
					pause := seen[i+1].at.Sub(seen[i].at)
					must.Hold(t, (pause == c.want || looks) && pause >= c.want, "pause", i+1, "took", pause, "expected", c.want)
				}
				must.Equal(t, seen[2].body, seen[0].body, "the bodies of the last and the first try")
			})
		}
	}
}

// If the answer to a resize is lost and its repetition rejected, the client reads the volume.
func TestUpdateWhoseAnswerWasLost(t *testing.T) {
	for _, version := range versions {
		for size, settled := range map[int]bool{20: true, 10: false} {
			runInBubble(t, fmt.Sprint(version, size), func(t *testing.T) {
				client, d := deployPiped(t, version, hangUp, answer(400, `{"message":"must exceed"}`),
					answer(200, fmt.Sprintf(`{"id":"a","name":"n","size":%d}`, size)))
				got, err := client.NetworkVolumes.Update(t.Context(),
					api.NetworkVolume{ID: "a", Name: "n", Size: 10}, api.NetworkVolume{Name: "n", Size: 20})
				must.Hold(t, (!settled || err == nil && got.Size == 20) && (settled || err != nil), "the server has size", size, "and the update to 20 returned", got, err)
				seen := d.requests()
				must.Hold(t, len(seen) == 3 && seen[2].method == "GET", "expected two updates and a read and got", seen)
			})
		}
		synctest.Test(t, func(t *testing.T) {
			client, d := deployPiped(t, version, answer(400, `{"message":"must exceed"}`))
			_, err := client.NetworkVolumes.Update(t.Context(), api.NetworkVolume{ID: "a", Size: 10}, api.NetworkVolume{Size: 20})
			must.Hold(t, err != nil && len(d.requests()) == 1, "a refusal at the first try gives", err, "after", len(d.requests()), "requests")
		})
	}
}

func TestAddressesAreChecked(t *testing.T) {
	for _, c := range []struct{ base, queue, setting, problem string }{
		{"", "", "base_url", "is empty"},
		{"127.0.0.1:8420", "", "base_url", "is not an address"},
		{"deployment", "", "base_url", "must begin with http:// or https://"},
		{"ftp://deployment", "", "base_url", "must begin with http:// or https://"},
		{"http:deployment", "", "base_url", "is not an address"},
		{"http://", "", "base_url", "names no host"},
		{"http://:8420", "", "base_url", "names no host"},
		{"http://deployment:port", "", "base_url", "is not an address"},
		{"http://deployment:99999", "", "base_url", "has the port 99999: expected 1 to 65535"},
		{"http://deployment", "http://queue:0", "queue_url", "has the port 0"},
		{"http://deployment/v1", "", "base_url", "remove /v1 from its end"},
		{"http://deployment/v2///", "", "base_url", "remove /v2 from its end"},
		{"http://deployment/rest/V2/", "", "base_url", "remove /v2 from its end"},
		{"http://deployment/live/v2", "", "base_url", "remove /live/v2 from its end"},
		{"http://someone@deployment", "", "base_url", "user name or password"},
		{"http://someone:secret@deployment", "", "base_url", "user name or password"},
		{"http://deployment?key=secret", "", "base_url", "before any ?"},
		{"http://deployment/#x", "", "base_url", "before any ?"},
		{"http://deployment", "http://queue/v2", "queue_url", "remove /v2 from its end"},
		{"http://deployment", "queue", "queue_url", "must begin with http:// or https://"},
	} {
		_, err := api.New(api.Settings{BaseURL: c.base, QueueURL: c.queue, APIKey: testKey})
		settingErr, ok := errors.AsType[*api.SettingError](err)
		must.Require(t, ok, "for", c.base, c.queue, "expected a SettingError and got", err)
		must.Hold(t, settingErr.Setting == c.setting && strings.Contains(err.Error(), c.problem), "for", c.base, c.queue, "expected", c.problem, "about", c.setting, "and got", err)
		must.Hold(t, !strings.Contains(err.Error(), "secret"), "the error about", c.base, "repeats a secret:", err)
	}
}

func TestOtherSettingsAreChecked(t *testing.T) {
	for _, c := range []struct {
		s       api.Settings
		setting string
	}{
		{api.Settings{}, "api_key"},
		{api.Settings{APIKey: "Bearer " + testKey}, "api_key"},
		{api.Settings{APIKey: testKey + "\n"}, "api_key"},
		{api.Settings{APIKey: testKey + "é"}, "api_key"},
		{api.Settings{APIKey: testKey, Version: "v3"}, "api_version"},
	} {
		c.s.BaseURL = "http://deployment"
		_, err := api.New(c.s)
		settingErr, ok := errors.AsType[*api.SettingError](err)
		must.Hold(t, ok && settingErr.Setting == c.setting, "for", c.s, "expected an error about", c.setting, "and got", err)
		must.Hold(t, err == nil || !strings.Contains(err.Error(), testKey), "the error repeats the key", err)
	}
}

func TestRequestsCarryKeyAgentAndPath(t *testing.T) {
	d := &deployment{answers: []http.HandlerFunc{answer(200, `{"id":"a","name":"n"}`)}}
	server := httptest.NewServer(d)
	defer server.Close()
	for _, c := range []struct {
		settings api.Settings
		want     string
	}{
		{api.Settings{BaseURL: server.URL}, "/v2/registries/a"}, // v2 is the default
		{api.Settings{BaseURL: server.URL + "//", Version: api.V2}, "/v2/registries/a"},
		{api.Settings{BaseURL: server.URL + "/rest/", Version: api.V1}, "/rest/v1/containerregistryauth/a"},
	} {
		c.settings.UserAgent = "provider/1.2.3"
		must.Do(client(t, c.settings).RegistryAuths.Get(t.Context(), "a"))(t)
		got := d.last(t)
		expectEqual(t, got.method+" "+got.path+"?"+got.query, "GET "+c.want+"?")
		expectEqual(t, got.header.Get("Authorization"), "Bearer "+testKey)
		expectEqual(t, got.header.Get("User-Agent"), "provider/1.2.3")
	}
}

func TestIDsAreOnePathSegment(t *testing.T) {
	c, d := deploy(t, api.V2, answer(200, `{"id":"a"}`))
	for _, id := range []string{"", ".", "..", "a/b", "a?b", "a#b", "a b", "ä", strings.Repeat("x", 129)} {
		must.Hold(t, !api.ValidID(id), "the invalid id", id, "is accepted")
		_, err := c.Templates.Get(t.Context(), id)
		must.Hold(t, err != nil && !api.IsNotFound(err), "Get of the invalid id", id, "returned", err)
		must.Hold(t, c.Templates.Delete(t.Context(), id) != nil, "Delete", id, "succeeds")
		must.Hold(t, must.Err(c.Jobs.Status(t.Context(), id, "j")) != nil, "Status of endpoint", id, "succeeds")
		must.Hold(t, must.Err(c.Jobs.Status(t.Context(), "e", id)) != nil, "Status of job", id, "succeeds")
	}
	must.Equal(t, len(d.requests()), 0, "requests were sent")
}

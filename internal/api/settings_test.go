package api_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

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
		if !ok {
			t.Errorf("%q, %q: got %v, want a SettingError", c.base, c.queue, err)
			continue
		}
		must.Hold(t, settingErr.Setting == c.setting && strings.Contains(err.Error(), c.problem), c.base, c.queue, err, c.setting, "…", c.problem)
		must.Hold(t, !strings.Contains(err.Error(), "secret"), c.base, "the error repeats a secret", err)
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
		must.Hold(t, ok && settingErr.Setting == c.setting, c.s.APIKey, err, "want an error of", c.setting)
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
		same(t, got.method+" "+got.path+"?"+got.query, "GET "+c.want+"?")
		same(t, got.header.Get("Authorization"), "Bearer "+testKey)
		same(t, got.header.Get("User-Agent"), "provider/1.2.3")
	}
}

func TestIDsAreOnePathSegment(t *testing.T) {
	c, d := deploy(t, api.V2, answer(200, `{"id":"a"}`))
	for _, id := range []string{"", ".", "..", "a/b", "a?b", "a#b", "a b", "ä", strings.Repeat("x", 129)} {
		must.Hold(t, !api.ValidID(id), "the invalid id", id, "is accepted")
		if _, err := c.Templates.Get(t.Context(), id); err == nil || api.IsNotFound(err) {
			t.Errorf("Get(%q): %v", id, err)
		}
		must.Hold(t, c.Templates.Delete(t.Context(), id) != nil, "Delete", id, "succeeds")
		must.Hold(t, must.Err(c.Jobs.Status(t.Context(), id, "j")) != nil, "Status of endpoint", id, "succeeds")
		must.Hold(t, must.Err(c.Jobs.Status(t.Context(), "e", id)) != nil, "Status of job", id, "succeeds")
	}
	must.Equal(t, len(d.requests()), 0, "requests were sent")
}

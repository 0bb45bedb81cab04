package api

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

type Version string

const (
	V1 Version = "v1" // deprecated, retired on 15 November 2026
	V2 Version = "v2"
)

const defaultTimeout = time.Minute // of one try of a request

// Settings say how to reach a deployment.
type Settings struct {
	// BaseURL is the address before /v1 or /v2. QueueURL is the address of the job API;
	// default: BaseURL.
	BaseURL  string
	QueueURL string

	// APIKey is sent as a bearer token. KeySource describes where it came from ("the api_key
	// attribute"), for errors about the key.
	APIKey    string
	KeySource string

	Version   Version // default: V2
	UserAgent string

	// RequestTimeout limits one try of a request, including reading its answer. Default: a
	// minute.
	RequestTimeout time.Duration

	// With SharedReads, the first read of a kind fetches its list, and the client answers later reads
	// from that list, until it writes. It is meant for one run of Terraform, which reads every object
	// once.
	SharedReads bool

	// Transport replaces the network. It may be nil.
	Transport http.RoundTripper

	Log httpclient.Log // may be nil
}

// SettingError describes an invalid setting and the fix. It never contains a key, user
// name or password.
type SettingError struct {
	Setting string // base_url, queue_url, api_key or api_version
	Problem string
}

func (e *SettingError) Error() string { return e.Setting + " " + e.Problem }

func (s Settings) withDefaults() (Settings, error) {
	var err error
	if s.BaseURL, err = validAddress("base_url", s.BaseURL); err != nil {
		return s, err
	}
	if s.QueueURL, err = validAddress("queue_url", cmp.Or(s.QueueURL, s.BaseURL)); err != nil {
		return s, err
	}
	if s.APIKey == "" {
		return s, &SettingError{"api_key", "is empty: set an API key of the deployment."}
	}
	if strings.ContainsFunc(s.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return s, &SettingError{"api_key", "has a blank, a line break or another character that no key has: copy the key again, without surrounding text."}
	}
	if s.Version = cmp.Or(s.Version, V2); s.Version != V1 && s.Version != V2 {
		return s, &SettingError{"api_version", `must be "v1" or "v2".`}
	}
	s.KeySource = cmp.Or(s.KeySource, "the settings")
	s.UserAgent = cmp.Or(s.UserAgent, "gpucloud")
	if s.RequestTimeout <= 0 {
		s.RequestTimeout = defaultTimeout
	}
	if s.Transport == nil {
		s.Transport = httpclient.Pooled()
	}
	return s, nil
}

// validAddress checks a base address and removes trailing slashes.
func validAddress(setting, raw string) (string, error) {
	refuse := func(problem string) (string, error) { return "", &SettingError{setting, problem} }
	if raw == "" {
		return refuse("is empty: set the address of the deployment, such as http://127.0.0.1:8420.")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Opaque != "":
		return refuse("is not an address: write it like https://host or http://127.0.0.1:8420.")
	case u.Scheme != "http" && u.Scheme != "https":
		return refuse("must begin with http:// or https://.")
	case u.Port() != "" && !isPort(u.Port()):
		return refuse("has the port " + u.Port() + ": expected 1 to 65535.")
	case u.Hostname() == "":
		return refuse("names no host: write it like https://host or http://127.0.0.1:8420.")
	case u.User != nil:
		return refuse("must not hold a user name or password: the API key goes into api_key.")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return refuse("must end before any ? or #.")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	if strings.HasSuffix(u.Path, "/live/v2") {
		return refuse("is the public SDKs' address: remove /live/v2 from its end.")
	}
	segment := u.Path[strings.LastIndex(u.Path, "/")+1:]
	if strings.EqualFold(segment, string(V1)) || strings.EqualFold(segment, string(V2)) {
		return refuse("must be the address before the version: remove /" + strings.ToLower(segment) + " from its end.")
	}
	return u.String(), nil
}

func isPort(digits string) bool {
	port, err := strconv.ParseUint(digits, 10, 16)
	return err == nil && port > 0
}

// Service is a public cloud. Each of its APIs has its own address.
type Service struct {
	BaseURLs    map[Version]string // of the management APIs, before /v1 or /v2
	QueueURL    string             // of the job API, before /v2
	KeyVariable string             // environment variable that usually holds the API key
}

var Services = map[string]Service{
	"runpod": {
		BaseURLs:    map[Version]string{V2: "https://api.runpod.io", V1: "https://rest.runpod.io"},
		QueueURL:    "https://api.runpod.ai",
		KeyVariable: "RUNPOD_API_KEY",
	},
}

// SameDeployment reports whether two addresses of management APIs lead to the same objects:
// they are equal, or are the same service's addresses of v1 and v2.
func SameDeployment(a, b string) bool {
	if a == b {
		return true
	}
	for _, s := range Services {
		if a == s.BaseURLs[V1] && b == s.BaseURLs[V2] || a == s.BaseURLs[V2] && b == s.BaseURLs[V1] {
			return true
		}
	}
	return false
}

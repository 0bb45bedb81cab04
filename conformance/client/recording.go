package client

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// exchange is a request of the client, with the answers of the front and of the deployment.
type exchange struct {
	wire.Exchange // Sent is when the request arrived; Status is 0 if the connection was dropped
	path          string
	// served is the deployment's answer, which a fault may have replaced.
	servedStatus int // 0 if the deployment got no request
	served       []byte
}

// Patterns of paths.
const (
	jobCreation = `^/v2/[^/]+/(run|runsync|openai/.+)$`
	creation    = `^/v[12]/[^/]+$|^/v2/registries/delegations$|` + jobCreation
	jobReads    = `^/v2/[^/]+/(status|stream)/` // clients poll these to wait for a job
	uniqueNames = `^/v2/(templates|registries)$|^/v1/(templates|containerregistryauth)$`
)

// The last group of volumePath and jobPath is the id.
var (
	creationPath    = regexp.MustCompile(creation)
	jobCreationPath = regexp.MustCompile(jobCreation)
	uniquePath      = regexp.MustCompile(uniqueNames)
	volumePath      = regexp.MustCompile(`^/(?:v2/network-volumes|v1/networkvolumes)(?:/([^/]+))?(?:/update)?$`)
	jobPath         = regexp.MustCompile(`^/v2/[^/]+/(?:status|stream)/([^/]+)$`)
	jobListPath     = regexp.MustCompile(`^/v2/[^/]+/requests$`)
)

// isFaulty tells whether a fault replaced the deployment's answer.
func (x *exchange) isFaulty() bool { return x.Status != x.servedStatus }

// sameAs tells whether two requests are equal.
func (x *exchange) sameAs(y *exchange) bool {
	return x.Request.Method == y.Request.Method && x.Request.URL == y.Request.URL && bytes.Equal(x.Request.Body, y.Request.Body)
}

// createdID returns the id of the management object that the request created.
func (x *exchange) createdID() string {
	if x.posts(jobCreationPath) {
		return ""
	}
	return textIn(x.served, "id")
}

// jobID returns the id of the job whose status or stream the request reads, or "".
func (x *exchange) jobID() string {
	if at := jobPath.FindStringSubmatch(x.path); at != nil {
		return at[1]
	}
	return ""
}

// isRead tells whether the request changes nothing.
func (x *exchange) isRead() bool {
	return x.Request.Method == http.MethodGet || x.Request.Method == http.MethodHead
}

// posts tells whether the request is a POST to a path.
func (x *exchange) posts(path *regexp.Regexp) bool {
	return x.Request.Method == http.MethodPost && path.MatchString(x.path)
}

func (x *exchange) succeeded() bool { return x.Status >= 200 && x.Status < 300 }

// bearer returns the key of the request, or "".
func (x *exchange) bearer() string {
	scheme, key, _ := strings.Cut(x.Request.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") { // RFC 9110: the scheme is case-insensitive
		return ""
	}
	return key
}

// line returns the method and the path of the request.
func (x *exchange) line() string { return x.Request.Method + " " + x.path }

// textIn returns a string member of a JSON object, or "" if it doesn't exist.
func textIn(body []byte, member string) string {
	var o map[string]any
	_ = json.Unmarshal(body, &o) // a body that isn't an object has no members
	text, _ := o[member].(string)
	return text
}

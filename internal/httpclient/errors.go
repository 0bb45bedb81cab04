package httpclient

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Error is a failed request. It contains neither the API key nor secrets of the request's body,
// even if the answer repeats them.
type Error struct {
	Method string
	URL    string // without query
	Status int    // 0 without an answer
	Title  string
	Detail string
	Fields []string // errors of members of the body, such as "$.size: …"

	Scope      string        // scopes that the API key lacks, if a 403 names them
	RequestID  string        // X-Request-Id of the answer
	RetryAfter time.Duration // wait that the answer asked for; 0 for none
	Tries      int

	OtherServer    string // describes the server that answered instead of the API; "" if the API answered
	List           bool   // the URL is a list
	DeploymentWide bool   // the failure concerns the whole deployment, not just the requested object
	TimedOut       bool   // one try got no answer in time

	keySource          string
	timeout            time.Duration // of one try
	failedBetweenTries bool          // interrupted while it waited for the next try
	mayHaveSucceeded   bool          // an earlier try may have succeeded
	callerTimedOut     bool
	cause              error
}

// Error describes the request, the answer and the remedy.
func (e *Error) Error() string {
	text, advice := e.Sentence(), strings.TrimSpace(e.outcome()+" "+e.Remedy())
	if advice == "" {
		return strings.TrimSuffix(text, ".")
	}
	return text + " " + advice
}

// Sentence returns the error without advice.
func (e *Error) Sentence() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: ", e.Method, e.URL)
	if e.Status != 0 {
		fmt.Fprintf(&b, "%d %s", e.Status, e.Title)
		if e.Detail != "" && e.Detail != e.Title {
			b.WriteString(": ")
		}
	}
	if e.Detail != e.Title {
		b.WriteString(e.Detail)
	}
	if len(e.Fields) > 0 {
		fmt.Fprintf(&b, " [%s]", strings.Join(e.Fields, "; "))
	}
	var notes []string
	if e.Tries > 1 {
		notes = append(notes, fmt.Sprintf("tried %d times", e.Tries))
	}
	if e.RequestID != "" {
		notes = append(notes, "request id "+e.RequestID)
	}
	if len(notes) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(notes, ", "))
	}
	if !strings.HasSuffix(b.String(), ".") {
		b.WriteString(".")
	}
	return b.String()
}

// outcome describes the effect of a failed write.
func (e *Error) outcome() string {
	switch {
	case e.Method == http.MethodGet:
		return ""
	case e.Ambiguous():
		return "The deployment may have done it: look before you try again."
	case e.Method != http.MethodPost && (e.mayHaveSucceeded || e.mayBeDone()):
		return "The deployment may have done it, and doing it again does no harm: apply again."
	case e.Method == http.MethodDelete: // other objects of the run may have been deleted
		return "This object was not deleted."
	}
	return "This request changed nothing."
}

// Remedy returns advice for the user.
func (e *Error) Remedy() string {
	switch {
	case e.callerTimedOut:
		return "The operation's own time-out expired."
	case e.Status == 0 && (errors.Is(e.cause, context.Canceled) || errors.Is(e.cause, ErrTooLarge)):
		return ""
	case e.TimedOut:
		return "If the deployment needs longer, raise request_timeout in the provider block, or GPUCLOUD_REQUEST_TIMEOUT."
	case errors.As(e.cause, new(x509.UnknownAuthorityError)):
		return "This machine doesn't trust the server's certificate: set SSL_CERT_FILE to a file with the certificate of its authority."
	case errors.As(e.cause, new(x509.CertificateInvalidError)):
		return "The server's certificate can't be used: renew it, or set this machine's clock."
	case errors.Is(e.cause, http.ErrSchemeMismatch):
		return "The server doesn't use TLS: start the address with http://."
	case e.Status == http.StatusProxyAuthRequired || failedIn("proxyconnect", e.cause):
		return "Check the proxy in HTTPS_PROXY or HTTP_PROXY, or add the deployment's host to NO_PROXY."
	case e.Status == 0:
		return "Check that the deployment is running and that its address is right."
	case e.Status >= 300 && e.Status < 400:
		return "Set base_url to the address that answers without a redirect: the API key is never sent to another host."
	case e.OtherServer != "" && (e.Status < 300 || e.Status < http.StatusNotFound && strings.HasPrefix(e.OtherServer, webSite)):
		return fmt.Sprintf("The address looks like %s. Check base_url and any proxy in between.", e.OtherServer)
	case e.Status == http.StatusNotFound && e.OtherServer != "":
		return fmt.Sprintf("This 404 doesn't mean that the object is gone: the address looks like %s. Check base_url and any proxy in between.", e.OtherServer)
	case e.Status == http.StatusNotFound && e.List:
		return "A missing list doesn't mean that an object is gone: check base_url, and that the deployment has this list."
	case e.Status == http.StatusUnauthorized:
		return fmt.Sprintf("The API key from %s is wrong or was revoked: set a valid one. A jobrunner with --ephemeral prints a new key at each start.", e.keySource)
	case e.Status == http.StatusForbidden && e.Scope != "":
		return fmt.Sprintf("The API key from %s lacks the scope %s: add it to the key, or use a key that has it.", e.keySource, e.Scope)
	case e.Status == http.StatusForbidden:
		return fmt.Sprintf("The API key from %s has no access to this: use a key that has access.", e.keySource)
	case e.Status == http.StatusTooManyRequests && e.RetryAfter > longestWait:
		return fmt.Sprintf("The rate limit is exceeded. The deployment asks to wait %s, which exceeds the longest wait of %s: apply again later.", e.RetryAfter, longestWait)
	case e.Status == http.StatusTooManyRequests && e.RetryAfter > 0:
		return fmt.Sprintf("The rate limit is exceeded: try again in %s, or send fewer requests at a time (terraform or tofu apply -parallelism=2).", e.RetryAfter)
	case e.Status == http.StatusTooManyRequests:
		return "Try again later, or send fewer requests at a time (terraform or tofu apply -parallelism=2)."
	case e.Status == http.StatusNotImplemented:
		return "The deployment doesn't have this operation."
	case e.Status >= 500:
		return "The deployment failed: try again later."
	}
	return ""
}

// Ambiguous reports whether the request may have created an object.
func (e *Error) Ambiguous() bool { return e.Method == http.MethodPost && e.mayBeDone() }

func (e *Error) mayBeDone() bool {
	return e.Tries > 0 && !neverSent(e.cause) && !e.failedBetweenTries && mayHaveExecuted(e.Status)
}

// mayHaveExecuted reports whether a write may have been carried out if its answer has the status, or 0 if it has none.
func mayHaveExecuted(status int) bool {
	return status < 300 || status == http.StatusSeeOther || status == http.StatusRequestTimeout || status >= 500 && status != http.StatusNotImplemented
}

// Is supports errors.Is for context.Canceled and the like. Unwrap would expose the cause, whose
// text may contain secrets.
func (e *Error) Is(target error) bool { return e.cause != nil && errors.Is(e.cause, target) }

// errorBody is a parsed error document. raw marks text that isn't from the API, for example
// from a proxy.
type errorBody struct {
	title, detail string
	fields        []string
	raw           bool
}

// parseErrorBody reads all known forms: RFC 9457 (v2), {"message": …} (v1), and {"error": …}
// with a text or an object (v1 as deployed, job API).
func parseErrorBody(contentType string, body []byte) errorBody {
	var doc struct {
		Title   FreeText
		Detail  FreeText
		Message FreeText
		Error   FreeText
		Errors  []FreeText
	}
	if json.Unmarshal(body, &doc) != nil {
		if isHTML(contentType, body) {
			return errorBody{raw: true, detail: "an HTML page, so this may not be the address of the API"}
		}
		return errorBody{raw: true, detail: string(body)}
	}
	out := errorBody{title: string(doc.Title)}
	for _, text := range []FreeText{doc.Detail, doc.Message, doc.Error} {
		out.detail = cmp.Or(out.detail, string(text))
	}
	for _, text := range doc.Errors {
		out.fields = append(out.fields, string(text))
	}
	if out.detail == "" && len(out.fields) == 0 && out.title == "" {
		return errorBody{raw: true, detail: string(body)}
	}
	return out
}

// FreeText is a text that some deployments wrap in an object or a list.
type FreeText string

// UnmarshalJSON removes the wrapping.
func (t *FreeText) UnmarshalJSON(data []byte) error {
	*t = FreeText(readText(data, maxWrapping))
	return nil
}

// maxWrapping limits the nesting that is unwrapped: each level is parsed once more.
const maxWrapping = 8

func readText(data []byte, wrapping int) string {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return text
	}
	if wrapping == 0 {
		return string(data)
	}
	var list []json.RawMessage
	if json.Unmarshal(data, &list) == nil {
		parts := make([]string, len(list))
		for i, part := range list {
			parts[i] = readText(part, wrapping-1)
		}
		return strings.Join(parts, "; ")
	}
	var object struct{ Detail, Message, Error, Title json.RawMessage }
	if json.Unmarshal(data, &object) == nil {
		for _, member := range []json.RawMessage{object.Detail, object.Message, object.Error, object.Title} {
			if member == nil {
				continue
			}
			if text := readText(member, wrapping-1); text != "" {
				return text
			}
		}
	}
	return string(data)
}

var pageTitle = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

const webSite = "a web site"

// describeServer describes the server that answered instead of the API.
func (r *Response) describeServer() string {
	text := "a server that answers in plain text"
	switch {
	case len(bytes.TrimSpace(r.Body)) == 0:
		text = "a server that answers without a body"
	case isHTML(r.Header.Get("Content-Type"), r.Body):
		text = webSite
		if m := pageTitle.FindSubmatch(r.Body); m != nil {
			text += fmt.Sprintf(" (page title %q)", html.UnescapeString(strings.TrimSpace(string(m[1]))))
		}
	case json.Valid(r.Body):
		text = "another API"
	}
	if server := r.Header.Get("Server"); server != "" {
		text += ", served by " + server
	}
	return r.sanitize(text, maxDetail)
}

func isHTML(contentType string, body []byte) bool {
	return strings.Contains(cmp.Or(contentType, http.DetectContentType(body)), "html")
}

// The names of missing scopes are in a challenge (RFC 6750) or in a member of the error document.
// RunPod's form isn't documented.
var (
	scopeInChallenge = regexp.MustCompile(`(?i)\bscope="?([^",]+)`)
	scopeName        = regexp.MustCompile(`^[\w.:*/-]{1,64}$`)
	scopeMembers     = map[string]bool{"scope": true, "scopes": true, "requiredscope": true, "requiredscopes": true, "missingscope": true, "missingscopes": true}
)

const maxScopes = 8

// missingScope returns the scopes that a 403 names, or "".
func missingScope(header http.Header, body []byte) string {
	var found []string
	add := func(text string) {
		for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == ';' }) {
			if scopeName.MatchString(name) && len(found) < maxScopes {
				found = append(found, name)
			}
		}
	}
	for _, challenge := range header.Values("WWW-Authenticate") {
		if match := scopeInChallenge.FindStringSubmatch(challenge); match != nil {
			add(match[1])
		}
	}
	if len(found) == 0 {
		walkScopes(body, maxWrapping, add)
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), ", ")
}

// walkScopes calls add with the value of each member that names scopes, in the first levels of a document.
func walkScopes(data []byte, levels int, add func(string)) {
	var elements []json.RawMessage
	var members map[string]json.RawMessage
	if levels == 0 || json.Unmarshal(data, &elements) != nil && json.Unmarshal(data, &members) != nil {
		return
	}
	for _, element := range elements {
		walkScopes(element, levels-1, add)
	}
	for name, value := range members {
		if scopeMembers[strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))] {
			var list []string
			var text string
			if json.Unmarshal(value, &list) == nil {
				add(strings.Join(list, " "))
			} else if json.Unmarshal(value, &text) == nil {
				add(text)
			}
			continue
		}
		walkScopes(value, levels-1, add)
	}
}

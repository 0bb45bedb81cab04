package jobapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/rawjson"
)

// bounds of a duration, sent as an integer of milliseconds.
type bounds struct{ min, max time.Duration }

var (
	ttlBounds       = bounds{engine.MinTTL, engine.MaxTTL}
	executionBounds = bounds{engine.MinTimeout, engine.MaxTimeout}
	waitBounds      = bounds{engine.MinWait, engine.MaxWait}
)

// Limits of bodies in bytes (service description: Endpoints, section B, rule 1; MB is 2^20 here).
const (
	maxRun     = 10 << 20
	maxRunSync = 20 << 20
)

// readBody reads a body of at most limit bytes. multiple is the memory that the caller needs as a
// multiple of the body. The body must be UTF-8, because a worker must be able to read it. An invalid
// body is a *httpanswer.Refusal. The caller releases the reservation when it no longer needs the bytes.
func (a *api) readBody(w http.ResponseWriter, r *http.Request, limit, multiple int64) ([]byte, *httplimit.Reservation, error) {
	body, reservation, err := a.Bodies.ReadBody(r, http.MaxBytesReader(w, r.Body, limit), limit, multiple, false)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, nil, httpanswer.Refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes: send a reference to the data instead, such as a URL", limit)
	}
	if err != nil {
		return nil, nil, httpanswer.BodyRefused(r.Context(), err)
	}
	if !utf8.Valid(body) {
		reservation.Release()
		return nil, nil, httpanswer.Refuse(http.StatusBadRequest, "the body is not JSON: its text is not UTF-8: send it uncompressed, in UTF-8")
	}
	return body, reservation, nil
}

func (a *api) parseSubmission(body []byte) (job engine.NewJob, err error) {
	members, ok := rawjson.Members(body, "input", "webhook", "policy", "s3Config")
	if !ok {
		return job, explainMalformed(body, `{"input": {…}}`)
	}
	input, ok := members["input"]
	switch {
	case !ok:
		return job, httpanswer.Refuse(http.StatusBadRequest, "input is missing: send {\"input\": {…}}")
	case !isObject(input):
		return job, httpanswer.Refuse(http.StatusBadRequest, "input must be a JSON object")
	}
	job.Input = input
	if job.Webhook, err = a.readWebhook(members["webhook"]); err != nil {
		return job, err
	}
	if err := checkS3Config(members["s3Config"]); err != nil {
		return job, err
	}
	if err := readPolicy(&job, members["policy"]); err != nil {
		return job, err
	}
	job.Rest = otherMembers(members)
	return job, nil
}

// otherMembers returns the members that a worker gets in addition to the input.
func otherMembers(members map[string]json.RawMessage) []byte {
	var text bytes.Buffer
	for _, name := range []string{"policy", "s3Config", "webhook"} {
		if v := members[name]; !isAbsent(v) {
			appendMember(&text, name, v)
		}
	}
	if text.Len() == 0 {
		return nil
	}
	text.WriteByte('}')
	return text.Bytes()
}

// appendMember appends a member, without blanks, to an object that isn't closed yet, or begins one.
// json.Marshal would escape the value, to up to six times its size.
func appendMember(object *bytes.Buffer, name string, value json.RawMessage) {
	start := byte(',')
	if object.Len() == 0 {
		start = '{'
	}
	object.WriteByte(start)
	object.WriteString(`"` + name + `":`)
	_ = json.Compact(object, value) // never fails: value is part of a parsed document
}

func explainMalformed(body []byte, example string) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return httpanswer.Refuse(http.StatusBadRequest, "the body is empty: send %s", example)
	}
	if fault := rawjson.Fault(body); fault != nil {
		return httpanswer.Refuse(http.StatusBadRequest, "the body is not JSON, %s", fault)
	}
	return httpanswer.Refuse(http.StatusBadRequest, "the body must be a JSON object: %s", example)
}

// maxWebhook is the maximum length of a webhook's URL in bytes. The engine holds it in memory until the job has ended.
const maxWebhook = 8 << 10

// readWebhook returns a webhook's URL, if this deployment may call it.
func (a *api) readWebhook(raw json.RawMessage) (string, error) {
	if isAbsent(raw) {
		return "", nil
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return "", httpanswer.Refuse(http.StatusBadRequest, "webhook must be a string")
	}
	if len(text) > maxWebhook {
		return "", httpanswer.Refuse(http.StatusBadRequest, "webhook is longer than %d bytes", maxWebhook)
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", httpanswer.Refuse(http.StatusBadRequest, "webhook must be an http or https URL")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", httpanswer.Refuse(http.StatusBadRequest, "webhook has the port %s: expected 1 to 65535", port)
		}
	}
	if err := a.Webhook(u); err != nil {
		return "", httpanswer.Refuse(http.StatusBadRequest, "%s", err)
	}
	return text, nil
}

// s3Members are the members of s3Config, all strings (service description: s3Config).
var s3Members = []string{"accessId", "accessSecret", "bucketName", "endpointUrl"}

func checkS3Config(raw json.RawMessage) error {
	if isAbsent(raw) {
		return nil
	}
	members, ok := rawjson.Members(raw, s3Members...)
	if !ok {
		return httpanswer.Refuse(http.StatusBadRequest, "s3Config must be an object")
	}
	for _, name := range s3Members {
		var text string
		if v := members[name]; !isAbsent(v) && json.Unmarshal(v, &text) != nil {
			return httpanswer.Refuse(http.StatusBadRequest, "s3Config.%s must be a string", name)
		}
	}
	return nil
}

func readPolicy(job *engine.NewJob, raw json.RawMessage) (err error) {
	if isAbsent(raw) {
		return nil
	}
	members, ok := rawjson.Members(raw, "lowPriority", "executionTimeout", "ttl")
	if !ok {
		return httpanswer.Refuse(http.StatusBadRequest, "policy must be an object")
	}
	if v := members["lowPriority"]; !isAbsent(v) && json.Unmarshal(v, &job.LowPriority) != nil {
		return httpanswer.Refuse(http.StatusBadRequest, "policy.lowPriority must be true or false")
	}
	if v := members["executionTimeout"]; !isAbsent(v) {
		if job.Timeout, err = readMilliseconds("policy.executionTimeout", v, executionBounds); err != nil {
			return err
		}
	}
	if v := members["ttl"]; !isAbsent(v) {
		job.TTL, err = readMilliseconds("policy.ttl", v, ttlBounds)
	}
	return err
}

// readMilliseconds reads an integer within bounds.
func readMilliseconds(name string, raw json.RawMessage, b bounds) (time.Duration, error) {
	var n float64
	if json.Unmarshal(raw, &n) != nil || n != math.Trunc(n) {
		return 0, httpanswer.Refuse(http.StatusBadRequest, "%s must be an integer of milliseconds", name)
	}
	if n < float64(b.min.Milliseconds()) || n > float64(b.max.Milliseconds()) {
		return 0, httpanswer.Refuse(http.StatusBadRequest, "%s must be from %d to %d ms", name, b.min.Milliseconds(), b.max.Milliseconds())
	}
	return time.Duration(n) * time.Millisecond, nil
}

func queryDuration(r *http.Request, name string, b bounds, defaultValue time.Duration) (time.Duration, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return defaultValue, nil
	}
	return readMilliseconds("the query parameter "+name, json.RawMessage(text), b)
}

func isAbsent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

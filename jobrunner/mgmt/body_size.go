package mgmt

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// checkBodySize rejects a body that is too large for its operation. It reads a body of unknown length.
func checkBodySize(c *call) error {
	limit := routes.Find(c.http.Method, c.http.URL.EscapedPath()).Operation.handle.maxBody
	if limit == 0 || 0 <= c.http.ContentLength && c.http.ContentLength <= limit {
		return nil
	}
	if c.http.ContentLength > limit {
		return httpanswer.BodyRefused(c.ctx(), &http.MaxBytesError{Limit: limit})
	}
	text, hold, err := c.Bodies.ReadBody(c.http, http.MaxBytesReader(c.writer, c.http.Body, limit), limit, 1, false)
	defer hold.Release()
	if err != nil {
		return httpanswer.BodyRefused(c.ctx(), err)
	}
	c.http.Body = io.NopCloser(bytes.NewReader(text))
	return nil
}

// checkMerged rejects a pod whose request is too large together with its template's settings.
func (b podBodyV2) checkMerged(tx *store.Tx, body map[string]any) error {
	t, err := b.template(tx)
	if err != nil || t == nil {
		return err
	}
	if size := len(mergedRequest(body, *t)); size > contract.MaxPodBody {
		return httpanswer.Refuse(http.StatusRequestEntityTooLarge, "the request has %d bytes with the settings of template %q: at most %d are allowed", size, t.ID, contract.MaxPodBody)
	}
	return nil
}

// mergedRequest returns the body of a pod's create with the settings of its template.
func mergedRequest(body map[string]any, t store.Template) []byte {
	var settings map[string]any
	if json.Unmarshal(toJSON(newTemplateV2(t)), &settings) != nil {
		return nil // it is always an object
	}
	request := contract.Body{API: contract.V2, Resource: "pod", Use: contract.Create}
	merged := maps.Clone(body)
	delete(merged, "templateId")
	_, entrypoint := body["entrypoint"]
	_, cmd := body["cmd"]
	for name, value := range settings {
		switch _, own := body[name]; {
		case own || value == nil || request.At(name) == nil, name == "entrypoint", name == "cmd": // args has both
		case name == "args" && (entrypoint || cmd), name == "mounts" && body["cpu"] != nil:
		default:
			merged[name] = value
		}
	}
	if own, ok := body["env"].(map[string]any); ok {
		env := maps.Clone(settings["env"].(map[string]any))
		maps.Copy(env, own)
		merged["env"] = env
	}
	return toJSON(merged)
}

func toJSON(value any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // never: a decoded value has a JSON form
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

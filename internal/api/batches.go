package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

type Batch struct {
	ID         string   `json:"id"`
	Name       string   `json:"name,omitempty"`
	Status     string   `json:"status"` // DRAFT, FINALIZED, FAILED or CANCELLED
	Total      int      `json:"requestTotal"`
	InProgress int      `json:"requestInProgress"`
	Completed  int      `json:"requestCompleted"`
	Failed     int      `json:"requestFailed"`
	CreatedAt  int64    `json:"createdAt"` // milliseconds since 1970
	RequestIDs []string `json:"requestIds,omitempty"`
}

// Finished reports whether no request of the batch waits or runs.
func (b Batch) Finished() bool {
	return b.Status == "FAILED" || b.Status == "CANCELLED" || b.Status == "FINALIZED" && b.Completed+b.Failed >= b.Total
}

// BatchRequest is a request of a batch, with its result once it has finished.
type BatchRequest struct {
	ID          string              `json:"id"`
	Status      string              `json:"status"`
	Output      json.RawMessage     `json:"output,omitempty"`
	Error       httpclient.FreeText `json:"error,omitempty"`
	StartedAt   string              `json:"startedAt,omitempty"`
	CompletedAt string              `json:"completedAt,omitempty"`
}

func (j *Jobs) CreateBatch(ctx context.Context, endpointID string) (Batch, error) {
	return j.batch(ctx, http.MethodPost, endpointID, "", "", []struct{}{})
}

// AddRequests adds requests to a draft. Each input is a JSON object.
func (j *Jobs) AddRequests(ctx context.Context, endpointID, batchID string, inputs []json.RawMessage) (Batch, error) {
	requests := make([]map[string]json.RawMessage, len(inputs))
	for i, input := range inputs {
		requests[i] = map[string]json.RawMessage{"input": input}
	}
	var answer Batch
	err := j.callBatch(ctx, http.MethodPost, endpointID, batchID, "/requests", map[string]any{"requests": requests}, nil, &answer)
	return answer, err
}

func (j *Jobs) RenameBatch(ctx context.Context, endpointID, batchID, name string) (Batch, error) {
	return j.batch(ctx, http.MethodPut, endpointID, batchID, "", map[string]string{"name": name})
}

// FinalizeBatch locks the requests of a draft and starts them.
func (j *Jobs) FinalizeBatch(ctx context.Context, endpointID, batchID string) (Batch, error) {
	return j.batch(ctx, http.MethodPost, endpointID, batchID, "/finalize", nil)
}

func (j *Jobs) CancelBatch(ctx context.Context, endpointID, batchID string) (Batch, error) {
	return j.batch(ctx, http.MethodPost, endpointID, batchID, "/cancel", nil)
}

func (j *Jobs) Batch(ctx context.Context, endpointID, batchID string) (Batch, error) {
	return j.batch(ctx, http.MethodGet, endpointID, batchID, "", nil)
}

func (j *Jobs) batch(ctx context.Context, method, endpointID, batchID, path string, body any) (Batch, error) {
	answer := objectAnswer[Batch]{kind: "batch", want: batchID, decode: decodePlain[Batch]}
	err := j.callBatch(ctx, method, endpointID, batchID, path, body, nil, &answer)
	return answer.object, err
}

func (j *Jobs) callBatch(ctx context.Context, method, endpointID, batchID, path string, body any, query url.Values, out any) error {
	if path != "" || query == nil && method != http.MethodPost { // otherwise the call is about the list
		if err := checkID("batch", batchID); err != nil {
			return err
		}
		path = "/" + batchID + path
	}
	_, err := j.do(ctx, endpointID, "/batch"+path, httpclient.Call{Method: method, Body: body, Query: query}, out)
	return err
}

// batchPage is the maximum page size, as on RunPod's web page.
const batchPage = 50

// Batches lists the batches of an endpoint, newest first.
func (j *Jobs) Batches(ctx context.Context, endpointID string) (all []Batch, err error) {
	err = eachInPages(ctx, j, endpointID, "", "", "batches", func(b Batch) error {
		all = append(all, b)
		return nil
	})
	return all, err
}

// BatchRequests calls each for every request of a batch, in order.
func (j *Jobs) BatchRequests(ctx context.Context, endpointID, batchID string, each func(BatchRequest) error) error {
	return eachInPages(ctx, j, endpointID, batchID, "/requests", "requests", each)
}

// eachInPages reads a list page by page, and calls each for every element. The elements of a page are in
// its member with the given name. A page that is too large is requested again with fewer elements.
func eachInPages[T any](ctx context.Context, j *Jobs, endpointID, batchID, path, member string, each func(T) error) error {
	for offset, limit := 0, batchPage; ; {
		var rest struct{ HasMore bool }
		page := listAnswer[T]{member: member, rest: &rest}
		query := url.Values{"offset": {strconv.Itoa(offset)}, "limit": {strconv.Itoa(limit)}}
		err := j.callBatch(ctx, http.MethodGet, endpointID, batchID, path, nil, query, &page)
		if errors.Is(err, httpclient.ErrTooLarge) && limit > 1 {
			limit /= 2
			continue
		} else if err != nil {
			return err
		}
		for _, object := range page.objects {
			if err := each(object); err != nil {
				return err
			}
		}
		if offset += len(page.objects); !rest.HasMore || len(page.objects) == 0 {
			return nil
		}
	}
}

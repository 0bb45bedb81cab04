package page

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// If several jobrunners share a database, each has its own workers, GPUs and logs. When a user opens
// the page of one jobrunner, that jobrunner asks the others for their workers, GPUs and logs.

// aloneParameter is a parameter of requests that a jobrunner answers only for itself.
const aloneParameter = "alone"

// Answer is the response of another jobrunner.
type Answer struct {
	Node string // its URL for other jobrunners
	Body []byte // nil for 404
}

// nodeJSON is the state of one jobrunner: GET /ui/node?endpoint=ID.
type nodeJSON struct {
	Name    string                    `json:"-"`
	States  map[string]map[string]int `json:"states"`  // number of workers by endpoint and state
	Workers []Worker                  `json:"workers"` // of the endpoint, or all
	GPUs    GPUs                      `json:"gpus"`
	Events  events                    `json:"events"` // of jobs of the endpoint, or of all
}

func (p *Page) serveNode(w http.ResponseWriter, r *http.Request) *httpanswer.Refusal {
	endpoints, err := p.Source.Endpoints(r.Context())
	if err != nil {
		return p.newRefusal(r, err)
	}
	httpanswer.JSON(w, http.StatusOK, p.ownNode(endpoints, r.URL.Query().Get("endpoint")))
	return nil
}

func (p *Page) ownNode(endpoints []store.Endpoint, endpoint string) nodeJSON {
	out := nodeJSON{Name: p.Node, States: map[string]map[string]int{}, Events: p.history.events(endpoint)}
	for _, e := range endpoints {
		out.States[e.ID] = p.Source.States(e.ID)
		if endpoint == "" || endpoint == e.ID {
			out.Workers = append(out.Workers, p.Source.Workers(e.ID)...)
		}
	}
	out.GPUs = p.currentGPUs(out.Workers)
	return out
}

// withOthers returns the state of all jobrunners, this one first, and the URLs of the unreachable ones.
func (p *Page) withOthers(r *http.Request, ownNode nodeJSON) (all []nodeJSON, unreachable []string) {
	all = []nodeJSON{ownNode}
	answers, unreachable := p.ask(r, "/ui/node", url.Values{"endpoint": {r.URL.Query().Get("endpoint")}})
	for _, a := range answers {
		node := nodeJSON{Name: a.Node}
		if a.Body == nil || json.Unmarshal(a.Body, &node) != nil { // the jobrunner has another version
			unreachable = append(unreachable, a.Node)
			continue
		}
		all = append(all, node)
	}
	return all, append([]string{}, unreachable...)
}

// ask sends a request to the other jobrunners, with the caller's authority.
func (p *Page) ask(r *http.Request, path string, query url.Values) (answers []Answer, unreachable []string) {
	if p.AskOthers == nil || r.URL.Query().Has(aloneParameter) {
		return nil, nil
	}
	query.Set(aloneParameter, "true")
	answers, unreachable = p.AskOthers(r, path+"?"+query.Encode())
	slices.SortFunc(answers, func(a, b Answer) int { return cmp.Compare(a.Node, b.Node) })
	slices.Sort(unreachable)
	return answers, unreachable
}

func statesOf(endpoint string, nodes []nodeJSON) map[string]int {
	out := map[string]int{}
	for _, node := range nodes {
		for state, n := range node.States[endpoint] {
			out[state] += n
		}
	}
	return out
}

// addNode adds the workers and GPUs of a jobrunner. A single jobrunner has no name.
func (s *snapshot) addNode(node nodeJSON) {
	for i := range node.Workers {
		node.Workers[i].Node = node.Name
	}
	for i := range node.GPUs.Devices {
		node.GPUs.Devices[i].Node = node.Name
	}
	if node.Name != "" {
		s.Nodes = append(s.Nodes, node.Name)
	}
	s.Workers = append(s.Workers, node.Workers...)
	if len(s.GPUs.Devices) == 0 {
		s.GPUs = node.GPUs
		return
	}
	s.GPUs.Devices = append(s.GPUs.Devices, node.GPUs.Devices...)
}

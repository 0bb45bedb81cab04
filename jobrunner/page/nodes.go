package page

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
)

// Where several jobrunners share a database, each has workers, GPUs and logs of its own.
// Each asks the others for theirs when somebody looks at its page.

// alone is a parameter of requests that a jobrunner answers for itself.
const alone = "alone"

// Answer is the response of another jobrunner.
type Answer struct {
	Node string // its URL for other jobrunners
	Body []byte // nil: 404
}

// nodeJSON is the state of one jobrunner: GET /ui/node?endpoint=ID.
type nodeJSON struct {
	Name    string                    `json:"-"`
	States  map[string]map[string]int `json:"states"`  // numbers of workers by endpoint and state
	Workers []Worker                  `json:"workers"` // of the endpoint, or all
	GPUs    GPUs                      `json:"gpus"`
	Events  events                    `json:"events"` // of jobs of the endpoint, or of all
}

func (p *Page) node(w http.ResponseWriter, r *http.Request) *httpanswer.Refusal {
	endpoints, err := p.Source.Endpoints(r.Context())
	if err != nil {
		return p.failed(r, err)
	}
	httpanswer.JSON(w, http.StatusOK, p.own(endpoints, r.URL.Query().Get("endpoint")))
	return nil
}

// own returns the state of this jobrunner.
func (p *Page) own(endpoints []Endpoint, only string) nodeJSON {
	out := nodeJSON{Name: p.Node, States: map[string]map[string]int{}, Events: p.history.events(only)}
	for _, e := range endpoints {
		out.States[e.ID] = e.Workers
		if only == "" || only == e.ID {
			out.Workers = append(out.Workers, p.Source.Workers(e.ID)...)
		}
	}
	out.GPUs = p.gpusNow(out.Workers)
	return out
}

// withOthers adds the state of the other jobrunners, and names those that don't answer.
func (p *Page) withOthers(r *http.Request, own nodeJSON) (all []nodeJSON, unreachable []string) {
	query := url.Values{}
	if only := r.URL.Query().Get("endpoint"); only != "" {
		query.Set("endpoint", only)
	}
	all = []nodeJSON{own}
	answers, unreachable := p.ask(r, "/ui/node", query)
	for _, a := range answers {
		one := nodeJSON{Name: a.Node}
		if a.Body == nil || json.Unmarshal(a.Body, &one) != nil { // it is of another version
			unreachable = append(unreachable, a.Node)
			continue
		}
		all = append(all, one)
	}
	if unreachable == nil {
		unreachable = []string{}
	}
	return all, unreachable
}

// ask sends a request to the other jobrunners, with the caller's authority.
func (p *Page) ask(r *http.Request, path string, query url.Values) (answers []Answer, unreachable []string) {
	if p.Others == nil || r.URL.Query().Has(alone) {
		return nil, nil
	}
	query.Set(alone, "true")
	answers, unreachable = p.Others(r, path+"?"+query.Encode())
	slices.SortFunc(answers, func(a, b Answer) int { return cmp.Compare(a.Node, b.Node) })
	slices.Sort(unreachable)
	return answers, unreachable
}

// statesOf adds up an endpoint's workers.
func statesOf(endpoint string, nodes []nodeJSON) map[string]int {
	out := maps.Clone(nodes[0].States[endpoint])
	for _, one := range nodes[1:] {
		for state, n := range one.States[endpoint] {
			out[state] += n
		}
	}
	return out
}

// addNode adds workers and GPUs of a jobrunner. A single jobrunner has no name.
func (s *snapshot) addNode(one nodeJSON) {
	for i := range one.Workers {
		one.Workers[i].Node = one.Name
	}
	for i := range one.GPUs.Devices {
		one.GPUs.Devices[i].Node = one.Name
	}
	if one.Name != "" {
		s.Nodes = append(s.Nodes, one.Name)
	}
	s.Workers = append(s.Workers, one.Workers...)
	if len(s.GPUs.Devices) == 0 {
		s.GPUs = one.GPUs
		return
	}
	s.GPUs.Devices = append(s.GPUs.Devices, one.GPUs.Devices...)
}

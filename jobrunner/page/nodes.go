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

// Answer is another jobrunner's.
type Answer struct {
	Node string // the URL at which the others reach it
	Body []byte // nil: it has not what was asked for
}

// nodeJSON is what a jobrunner has of its own: GET /ui/node?endpoint=ID.
type nodeJSON struct {
	Name    string                    `json:"-"`
	States  map[string]map[string]int `json:"states"`  // numbers of workers by endpoint and state
	Workers []workerJSON              `json:"workers"` // of the endpoint, or all
	GPUs    gpusJSON                  `json:"gpus"`
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

// own is what this jobrunner has.
func (p *Page) own(endpoints []Endpoint, only string) nodeJSON {
	out := nodeJSON{Name: p.Node, States: map[string]map[string]int{}, Events: p.history.events(only)}
	for _, e := range endpoints {
		out.States[e.ID] = e.Workers
		if only == "" || only == e.ID {
			for _, one := range p.Source.Workers(e.ID) {
				out.Workers = append(out.Workers, describeWorker(e.ID, one))
			}
		}
	}
	out.GPUs = p.gpusNow(out.Workers)
	return out
}

// withOthers adds what the other jobrunners have, and names those that do not answer.
func (p *Page) withOthers(r *http.Request, own nodeJSON) (all []nodeJSON, silent []string) {
	query := url.Values{}
	if only := r.URL.Query().Get("endpoint"); only != "" {
		query.Set("endpoint", only)
	}
	all = []nodeJSON{own}
	answers, silent := p.ask(r, "/ui/node", query)
	for _, a := range answers {
		one := nodeJSON{Name: a.Node}
		if a.Body == nil || json.Unmarshal(a.Body, &one) != nil { // it is of another version
			silent = append(silent, a.Node)
			continue
		}
		all = append(all, one)
	}
	if silent == nil {
		silent = []string{}
	}
	return all, silent
}

// ask asks the other jobrunners, with the authority of who is signed in.
func (p *Page) ask(r *http.Request, path string, query url.Values) (answers []Answer, silent []string) {
	if p.Others == nil || r.URL.Query().Has(alone) {
		return nil, nil
	}
	query.Set(alone, "true")
	answers, silent = p.Others(r, path+"?"+query.Encode())
	slices.SortFunc(answers, func(a, b Answer) int { return cmp.Compare(a.Node, b.Node) })
	slices.Sort(silent)
	return answers, silent
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

// addNode adds workers and GPUs of a jobrunner. Where there is one alone they name none.
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

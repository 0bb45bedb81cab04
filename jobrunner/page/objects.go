package page

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Objects are the objects of a deployment other than endpoints.
type Objects struct {
	Pods     []Pod // also the members of clusters
	Clusters []store.Cluster
	Volumes  []store.NetworkVolume
}

// Pod has the members of a pod that the page shows. It omits variables, which may be secrets.
type Pod struct {
	store.Head
	store.PodState
	Image   string               `json:"image"`
	Actions []pod.Action         `json:"actions"` // possible now
	GPU     *store.PodGPU        `json:"gpu"`
	CPU     *store.PodCPU        `json:"cpu"`
	Locked  bool                 `json:"locked"`
	Cost    float64              `json:"cost"` // dollars per hour now
	Cluster *store.ClusterMember `json:"cluster"`
}

const (
	objectsAge  = time.Second // maximum age of the shown objects
	maxPods     = 50
	maxClusters = 20
	maxMembers  = 16 // of each cluster
	maxVolumes  = 50
	maxReleases = 20
)

type (
	// beginning has the first elements of a list, and the length of the list.
	beginning[T any] struct {
		Total int `json:"total"`
		List  []T `json:"list"`
	}
	cluster struct {
		store.Cluster
		Pods beginning[Pod] `json:"pods"` // by rank
	}
	release struct {
		Version int64     `json:"version"`
		Created time.Time `json:"created"`
		Changes []string  `json:"changes"` // human-readable
		Workers int       `json:"workers"`
	}
	pods struct {
		beginning[Pod]
		Find   string                  `json:"find"`   // filter of the list
		Found  int                     `json:"found"`  // number of elements that match it
		States map[store.PodStatus]int `json:"states"` // number of pods by state
	}
)

func beginningOf[T any](list []T, limit int) beginning[T] {
	return beginning[T]{len(list), append([]T{}, list[:min(len(list), limit)]...)}
}

func newestFirst[T any](list []T, created func(T) time.Time) []T {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b T) int { return created(b).Compare(created(a)) })
	return list
}

// addObjects adds the overview's objects other than endpoints. With ?pods=TEXT, only pods whose name,
// id, image or state contains the text are listed.
func (p *Page) addObjects(s *snapshot, r *http.Request) error {
	all, err := p.objects.get(objectsAge, func() (Objects, error) { return p.Source.Objects(r.Context()) })
	if err != nil {
		return err
	}
	out := pods{Find: r.URL.Query().Get("pods"), States: map[store.PodStatus]int{}}
	members := map[string][]Pod{}
	var standalone, matches []Pod
	filter := strings.ToLower(strings.TrimSpace(out.Find))
	for _, pod := range all.Pods {
		if c := pod.Cluster; c != nil {
			members[c.ID] = append(members[c.ID], pod)
			continue
		}
		standalone = append(standalone, pod)
		out.States[pod.Status]++
		if pod.matches(filter) {
			matches = append(matches, pod)
		}
	}
	out.beginning = beginningOf(newestFirst(matches, func(pod Pod) time.Time { return pod.Created }), maxPods)
	out.Found, out.Total = len(matches), len(standalone)
	s.Pods = &out
	clusters := make([]cluster, len(all.Clusters))
	for i, c := range newestFirst(all.Clusters, func(c store.Cluster) time.Time { return c.Created }) {
		clusters[i] = cluster{c, byRank(members[c.ID])}
	}
	s.Clusters = new(beginningOf(clusters, maxClusters))
	s.Volumes = new(beginningOf(newestFirst(all.Volumes, func(v store.NetworkVolume) time.Time { return v.Created }), maxVolumes))
	s.Keys = p.keys(r)
	return nil
}

// matches takes the filter in lower case.
func (p Pod) matches(filter string) bool {
	return filter == "" || slices.ContainsFunc([]string{p.Name, p.ID, p.Image, string(p.Status)}, func(text string) bool {
		return strings.Contains(strings.ToLower(text), filter)
	})
}

func byRank(members []Pod) beginning[Pod] {
	rank := func(p Pod) int64 {
		if p.Cluster.Rank == nil {
			return 1 << 62 // last if not known yet
		}
		return *p.Cluster.Rank
	}
	slices.SortStableFunc(members, func(a, b Pod) int { return cmp.Compare(rank(a), rank(b)) })
	return beginningOf(members, maxMembers)
}

// releases returns the releases of an endpoint, the newest first, with their workers.
func (p *Page) releases(ctx context.Context, endpoint string, workersByVersion map[int64]int) (*beginning[release], error) {
	all, err := p.Source.Releases(ctx, endpoint)
	out := &beginning[release]{Total: len(all), List: []release{}}
	for _, r := range all[:min(len(all), maxReleases)] {
		row := release{r.Version, r.Created, []string{}, workersByVersion[r.Version]}
		for _, c := range r.Changes {
			row.Changes = append(row.Changes, describeChange(c))
		}
		out.List = append(out.List, row)
	}
	return out, err
}

// maxShownValue is the maximum length of a changed value of a release, in bytes.
const maxShownValue = 200

// describeChange shows only the names of variables, because their values may be secrets.
func describeChange(c store.Change) string {
	name := strings.TrimPrefix(c.Field, "template.")
	var oldEnv, newEnv map[string]string
	if name == "env" && json.Unmarshal(c.Old, &oldEnv) == nil && json.Unmarshal(c.New, &newEnv) == nil {
		variables := map[string]string{}
		maps.Copy(variables, oldEnv)
		maps.Copy(variables, newEnv)
		maps.DeleteFunc(variables, func(variable, _ string) bool { return oldEnv[variable] == newEnv[variable] })
		return "env: " + strings.Join(slices.Sorted(maps.Keys(variables)), ", ")
	}
	return fmt.Sprintf("%s: %s → %s", name, logline.Shorten(displayValue(c.Old), maxShownValue), logline.Shorten(displayValue(c.New), maxShownValue))
}

// displayValue formats a value for the page: as JSON, except for text and absent values.
func displayValue(value json.RawMessage) string {
	var text string
	switch err := json.Unmarshal(value, &text); {
	case string(value) == "null", err == nil && text == "":
		return "none"
	case err == nil:
		return text
	}
	return string(value)
}

// batches returns the newest batches of an endpoint, as the job API lists them.
func (p *Page) batches(ctx context.Context, endpoint string) (*beginning[jobapi.BatchSummary], error) {
	list, total, err := p.Source.Batches(ctx, endpoint, 0, jobapi.DefaultPage)
	if err != nil {
		return nil, err
	}
	out := &beginning[jobapi.BatchSummary]{total, []jobapi.BatchSummary{}}
	for _, b := range list {
		out.List = append(out.List, jobapi.Summarize(b))
	}
	return out, nil
}

const maxKeys = 50 // in one answer

type (
	keysJSON struct {
		beginning[keyJSON]
		Fault string `json:"fault"` // why the list is incomplete
	}
	// keyJSON describes a key without anything that could reveal it.
	keyJSON struct {
		apikey.Identity
		Name    string    `json:"name"`             // "": the deployment's own
		Created time.Time `json:"created,omitzero"` // absent if unknown
		Expires time.Time `json:"expires,omitzero"` // absent if never
		Expired bool      `json:"expired"`
	}
)

// keys returns all keys if the caller has all rights, otherwise the keys of the same owner.
func (p *Page) keys(r *http.Request) *keysJSON {
	caller, _ := p.Keys.Authorize(r) // without rights if the key was just revoked
	seesAll := caller.MayManage() && caller.MayUse("", apikey.All)
	out, visible := new(keysJSON), []keyJSON{}
	all, err := p.Keys.List()
	if err != nil { // the log says why
		out.Fault = "Some API keys can’t be read. Until that is repaired, they are rejected."
	}
	if seesAll || caller.Owner == apikey.DefaultOwner {
		visible = append(visible, keyJSON{Identity: apikey.OwnIdentity})
	}
	for _, k := range newestFirst(all, func(k apikey.Key) time.Time { return k.Created }) {
		if seesAll || k.Owner == caller.Owner {
			visible = append(visible, keyJSON{k.Identity(), k.Name, k.Created, k.Expires, k.Expired(p.Clock.Wall())})
		}
	}
	out.beginning = beginningOf(visible, maxKeys)
	return out
}

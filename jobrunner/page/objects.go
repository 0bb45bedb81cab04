package page

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobapi"
)

// Objects are what a deployment has beside its endpoints.
type Objects struct {
	Pods     []Pod // also the members of clusters
	Clusters []Cluster
	Volumes  []Volume
}

// Pod is what the page says of a pod.
type Pod struct {
	ID, Name, Image  string
	Status           string // in the words of API v2
	Reason           string // why it is as it is, for people
	Actions          []string
	Compute          string // for people: 2 × NVIDIA H200
	Locked           bool
	Created, Started time.Time
	Cost             float64 // dollars per hour now
	Cluster          *Member // nil: it is of no cluster
}

// Member is a pod's place in a cluster.
type Member struct {
	Cluster  string // id
	Rank     *int64 // nil: not known yet
	Role, IP string
}

// Cluster is what the page says of a cluster.
type Cluster struct {
	ID, Name, Type string
	Compute        string // of each pod, for people
	Network        string // "": not there yet
	Created        time.Time
}

// Volume is what the page says of a network volume.
type Volume struct {
	ID, Name, DataCenter, Type string
	Size                       int64 // GB
	Created                    time.Time
}

// Release is a version of an endpoint.
type Release struct {
	Version int64
	Created time.Time
	Changes []string // for people
}

// objectsAge is how old the objects that the page shows may be.
const objectsAge = time.Second

// What one answer holds at most.
const (
	maxPods     = 50
	maxClusters = 20
	maxMembers  = 16 // of each cluster
	maxVolumes  = 50
	maxReleases = 20
)

// podActions are those that the page offers: pods are made and deleted elsewhere.
var podActions = []string{"start", "stop", "restart"}

type (
	// beginning is the first elements of a list, and how many the list has.
	beginning[T any] struct {
		Total int `json:"total"`
		List  []T `json:"list"`
	}
	podsJSON struct {
		beginning[podJSON]
		Find   string         `json:"find"`   // what the list was filtered by
		Found  int            `json:"found"`  // so many have it
		States map[string]int `json:"states"` // of all
	}
	podJSON struct {
		ID      string   `json:"id"`
		Name    string   `json:"name"`
		Image   string   `json:"image"`
		State   string   `json:"state"`
		Reason  string   `json:"reason"`
		Actions []string `json:"actions"`
		Compute string   `json:"compute"`
		Locked  bool     `json:"locked"`
		Started int64    `json:"started"` // 0: not running
		Cost    float64  `json:"cost"`
		Rank    *int64   `json:"rank"` // in its cluster, as the next two
		Role    string   `json:"role"`
		IP      string   `json:"ip"`
	}
	clusterJSON struct {
		ID      string             `json:"id"`
		Name    string             `json:"name"`
		Type    string             `json:"type"`
		Compute string             `json:"compute"`
		Network string             `json:"network"`
		Pods    beginning[podJSON] `json:"pods"` // by rank
	}
	volumeJSON struct {
		ID         string `json:"id"`
		Name       string `json:"name"`
		Size       int64  `json:"size"`
		DataCenter string `json:"dataCenter"`
		Type       string `json:"type"`
	}
	releaseJSON struct {
		Version int64    `json:"version"`
		Created int64    `json:"created"`
		Changes []string `json:"changes"`
		Workers int      `json:"workers"`
	}
)

// beginningOf converts the first elements of a list.
func beginningOf[T, U any](list []T, most int, show func(T) U) beginning[U] {
	out := beginning[U]{len(list), make([]U, 0, min(len(list), most))}
	for _, one := range list[:min(len(list), most)] {
		out.List = append(out.List, show(one))
	}
	return out
}

// newest is the list with the newest first.
func newest[T any](list []T, created func(T) time.Time) []T {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b T) int { return created(b).Compare(created(a)) })
	return list
}

// addObjects adds what the overview has beside endpoints. With ?pods=TEXT the pods
// are those whose name, id, image or state has the text.
func (p *Page) addObjects(s *snapshot, r *http.Request) error {
	all, err := p.objects.get(p.Clock.Now(), objectsAge, func() (Objects, error) { return p.Source.Objects(r.Context()) })
	if err != nil {
		return err
	}
	pods := podsJSON{Find: r.URL.Query().Get("pods"), States: map[string]int{}}
	members := map[string][]Pod{}
	var single, found []Pod
	want := strings.ToLower(strings.TrimSpace(pods.Find))
	for _, one := range all.Pods {
		if one.Cluster != nil {
			members[one.Cluster.Cluster] = append(members[one.Cluster.Cluster], one)
			continue
		}
		single = append(single, one)
		pods.States[one.Status]++
		if one.matches(want) {
			found = append(found, one)
		}
	}
	pods.beginning = beginningOf(newest(found, func(one Pod) time.Time { return one.Created }), maxPods, describePod)
	pods.Found, pods.Total = len(found), len(single)
	s.Pods = &pods
	s.Clusters = new(beginningOf(newest(all.Clusters, func(c Cluster) time.Time { return c.Created }), maxClusters, func(c Cluster) clusterJSON {
		return describeCluster(c, members[c.ID])
	}))
	s.Volumes = new(beginningOf(newest(all.Volumes, func(v Volume) time.Time { return v.Created }), maxVolumes, func(v Volume) volumeJSON {
		return volumeJSON{v.ID, v.Name, v.Size, v.DataCenter, v.Type}
	}))
	s.Keys = p.keys(r)
	return nil
}

func (p Pod) matches(lower string) bool {
	return lower == "" || slices.ContainsFunc([]string{p.Name, p.ID, p.Image, p.Status}, func(text string) bool {
		return strings.Contains(strings.ToLower(text), lower)
	})
}

func describePod(p Pod) podJSON {
	out := podJSON{
		ID: p.ID, Name: p.Name, Image: p.Image, State: p.Status, Reason: p.Reason, Actions: []string{}, Compute: p.Compute, Locked: p.Locked, Cost: p.Cost,
	}
	for _, action := range podActions {
		if slices.Contains(p.Actions, action) {
			out.Actions = append(out.Actions, action)
		}
	}
	if !p.Started.IsZero() {
		out.Started = p.Started.UnixMilli()
	}
	if c := p.Cluster; c != nil {
		out.Rank, out.Role, out.IP = c.Rank, c.Role, c.IP
	}
	return out
}

func describeCluster(c Cluster, members []Pod) clusterJSON {
	rank := func(p Pod) int64 {
		if p.Cluster.Rank == nil {
			return 1 << 62 // not known yet: last
		}
		return *p.Cluster.Rank
	}
	slices.SortStableFunc(members, func(a, b Pod) int { return cmp.Compare(rank(a), rank(b)) })
	return clusterJSON{c.ID, c.Name, c.Type, c.Compute, c.Network, beginningOf(members, maxMembers, describePod)}
}

// releases are those of an endpoint, the newest first, with their workers.
func (p *Page) releases(ctx context.Context, endpoint string, workers map[int64]int) (*beginning[releaseJSON], error) {
	all, err := p.Source.Releases(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	return new(beginningOf(all, maxReleases, func(r Release) releaseJSON {
		return releaseJSON{r.Version, r.Created.UnixMilli(), append([]string{}, r.Changes...), workers[r.Version]}
	})), nil
}

// batches are the first page of those of an endpoint, as the job API lists them.
func (p *Page) batches(ctx context.Context, endpoint string) (*beginning[jobapi.BatchSummary], error) {
	list, total, err := p.Source.Batches(ctx, endpoint, jobapi.DefaultPage)
	if err != nil {
		return nil, err
	}
	out := beginningOf(list, len(list), jobapi.Summarize)
	out.Total = total
	return &out, nil
}

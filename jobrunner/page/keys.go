package page

import (
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

const maxKeys = 50 // in one answer

type (
	// callerJSON is the caller, identified by key or session.
	callerJSON struct {
		Owner      string       `json:"owner"`
		Management apikey.Scope `json:"management"`
		Jobs       apikey.Scope `json:"jobs"`
	}
	keysJSON struct {
		beginning[keyJSON]
		Fault string `json:"fault"` // why the list is incomplete
	}
	// keyJSON describes a key without anything that could reveal it.
	keyJSON struct {
		callerJSON
		Name      string   `json:"name"`      // "": the deployment's own
		Endpoints []string `json:"endpoints"` // empty means all
		Created   int64    `json:"created"`   // 0 if unknown
		Expires   int64    `json:"expires"`   // 0 if never
		Expired   bool     `json:"expired"`
	}
)

// caller returns the identity of a request's sender. Without a key, the sender used the printed link,
// and has all rights.
func (p *Page) caller(r *http.Request) apikey.Identity {
	if r.Header.Get("Authorization") == "" {
		return apikey.Own
	}
	caller, err := p.Keys.Authorize(r)
	if err != nil {
		return apikey.Identity{} // the key was just revoked: no rights
	}
	return caller
}

// keys returns the keys that the caller may see: all if the caller has all rights, otherwise those of
// the same owner.
func (p *Page) keys(r *http.Request) *keysJSON {
	caller := p.caller(r)
	everything := caller.MayManage() && caller.MayUse("", apikey.All)
	out, visible := new(keysJSON), []keyJSON{}
	all, err := p.Keys.List()
	if err != nil { // the log says why
		out.Fault = "The list of API keys can’t be read. Until that is repaired, only the deployment’s own key is accepted."
	}
	if everything || caller.Owner == apikey.Default {
		visible = append(visible, keyJSON{callerJSON: callerJSON{apikey.Default, apikey.All, apikey.All}, Endpoints: []string{}})
	}
	for _, k := range newest(all, func(k apikey.Key) time.Time { return k.Created }) {
		if !everything && k.Owner != caller.Owner {
			continue
		}
		visible = append(visible, keyJSON{
			callerJSON: callerJSON{k.Owner, k.Management, k.Jobs}, Name: k.Name, Endpoints: append([]string{}, k.Endpoints...),
			Created: Milliseconds(k.Created), Expires: Milliseconds(k.Expires), Expired: k.Expired(p.Clock.Now()),
		})
	}
	out.beginning = beginningOf(visible, maxKeys)
	return out
}

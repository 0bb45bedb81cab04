package page

import (
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

const maxKeys = 50 // that one answer holds

type (
	// callerJSON is the caller: who sends the request, by key or session.
	callerJSON struct {
		Owner      string       `json:"owner"`
		Management apikey.Scope `json:"management"`
		Jobs       apikey.Scope `json:"jobs"`
	}
	keysJSON struct {
		beginning[keyJSON]
		Fault string `json:"fault"` // why the list is incomplete
	}
	// keyJSON is a key without anything from which it could be found out.
	keyJSON struct {
		Name       string       `json:"name"` // "": the deployment's own
		Owner      string       `json:"owner"`
		Management apikey.Scope `json:"management"`
		Jobs       apikey.Scope `json:"jobs"`
		Endpoints  []string     `json:"endpoints"` // none: all
		Created    int64        `json:"created"`   // 0: not known
		Expires    int64        `json:"expires"`   // 0: never
		Expired    bool         `json:"expired"`
	}
)

// caller returns who sends a request. Without a key it is somebody who used the printed
// link, and may do everything.
func (p *Page) caller(r *http.Request) apikey.Identity {
	if r.Header.Get("Authorization") == "" {
		return apikey.Own
	}
	who, err := p.Keys.Authorize(r)
	if err != nil {
		return apikey.Identity{} // it was revoked a moment ago, and may see nothing
	}
	return who
}

func describeCaller(who apikey.Identity) callerJSON {
	return callerJSON{who.Owner, who.Management, who.Jobs}
}

// keys returns the keys that the caller may see: all if the caller may do everything, and
// otherwise those of the same owner.
func (p *Page) keys(r *http.Request) *keysJSON {
	who := p.caller(r)
	everything := who.MayManage() && who.MayUse("", apikey.All)
	out, shown := new(keysJSON), []keyJSON{}
	all, err := p.Keys.List()
	if err != nil { // the log says why
		out.Fault = "The list of API keys can’t be read. Until that is repaired, only the deployment’s own key is accepted."
	}
	if everything || who.Owner == apikey.Default {
		shown = append(shown, keyJSON{Owner: apikey.Default, Management: apikey.All, Jobs: apikey.All, Endpoints: []string{}})
	}
	for _, k := range newest(all, func(k apikey.Key) time.Time { return k.Created }) {
		if !everything && k.Owner != who.Owner {
			continue
		}
		shown = append(shown, keyJSON{
			Name: k.Name, Owner: k.Owner, Management: k.Management, Jobs: k.Jobs, Endpoints: append([]string{}, k.Endpoints...),
			Created: Milliseconds(k.Created), Expires: Milliseconds(k.Expires), Expired: k.Expired(p.Clock.Now()),
		})
	}
	out.beginning = beginningOf(shown, maxKeys)
	return out
}

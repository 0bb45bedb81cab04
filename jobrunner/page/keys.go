package page

import (
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

const maxKeys = 50 // that one answer holds

type (
	// callerJSON is who is signed in.
	callerJSON struct {
		Owner      string       `json:"owner"`
		Management apikey.Scope `json:"management"`
		Jobs       apikey.Scope `json:"jobs"`
	}
	keysJSON struct {
		some[keyJSON]
		Fault string `json:"fault"` // why there are not all
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

// caller is who is signed in; without a key, somebody who used the printed link and
// may do everything.
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

// keys are the keys that who is signed in may see: all of them where they may do
// everything, and otherwise those of the same owner.
func (p *Page) keys(r *http.Request) *keysJSON {
	who := p.caller(r)
	everything := who.MayManage() && who.MayUse("", apikey.All)
	out, shown := new(keysJSON), []keyJSON{}
	all, err := p.Keys.List()
	if err != nil { // the log says why
		out.Fault = "The file of the further keys can’t be read: they are refused until it is repaired."
	}
	if everything || who.Owner == apikey.Default {
		shown = append(shown, keyJSON{Owner: apikey.Default, Management: apikey.All, Jobs: apikey.All, Endpoints: []string{}})
	}
	for _, k := range newest(all, func(k apikey.Key) time.Time { return k.Created }) {
		if !everything && k.Owner != who.Owner {
			continue
		}
		one := keyJSON{
			Name: k.Name, Owner: k.Owner, Management: k.Management, Jobs: k.Jobs, Endpoints: append([]string{}, k.Endpoints...),
			Created: k.Created.UnixMilli(), Expired: k.Expired(p.Clock.Now()),
		}
		if !k.Expires.IsZero() {
			one.Expires = k.Expires.UnixMilli()
		}
		shown = append(shown, one)
	}
	out.some = first(shown, maxKeys, func(k keyJSON) keyJSON { return k })
	return out
}

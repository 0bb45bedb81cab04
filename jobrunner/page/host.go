package page

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
)

// Local has only requests served that name this machine by a name of its own.
// A deployment on a loopback address is reached by no other name, unless a site
// has had its own name resolved to this machine so that its scripts may read
// what is here. Where remote is true, the deployment has names that nobody here
// knows, and every path asks for a key.
func Local(remote bool, next http.Handler) http.Handler {
	if remote {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ownName(r.Host) {
			httpanswer.Error.Refuse(w, httpanswer.Refuse(http.StatusMisdirectedRequest, "This deployment is for this machine alone: open it as http://127.0.0.1 or http://localhost, with its port."))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func ownName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// isCrossSite tells that another site's page made the browser send a request.
// Browsers say so; other clients say nothing.
func isCrossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	_, host, ok := strings.Cut(origin, "://")
	return !ok || host != r.Host
}

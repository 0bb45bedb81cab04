package page

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
)

// Local rejects requests for other host names than this machine's own, to prevent DNS rebinding:
// another site could resolve its name to this machine, so that its scripts could read the page. If
// remote is true, the deployment has unknown names, and every path requires a key instead.
func Local(remote bool, next http.Handler) http.Handler {
	if remote {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ownName(r.Host) {
			httpanswer.Error.Refuse(w, httpanswer.Refuse(http.StatusMisdirectedRequest, "This deployment only serves this machine: open it as http://127.0.0.1 or http://localhost, with its port."))
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

// isCrossSite reports whether another site's page made the browser send the request. Only browsers
// send these headers.
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

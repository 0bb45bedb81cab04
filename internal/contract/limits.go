package contract

// MaxPodBody is the maximum size of a pod's create request in API v2, in bytes, with and
// without its template's settings (changes of November 2026).
const MaxPodBody = 102_400

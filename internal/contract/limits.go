package contract

// MaxPodBody is the most bytes that a create of a pod through API v2 may have, by itself and
// with the settings of its template (changes of November 2026).
const MaxPodBody = 102_400

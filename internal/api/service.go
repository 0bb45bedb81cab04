package api

// Service is a public cloud. Each of its APIs has its own address.
type Service struct {
	BaseURLs    map[Version]string // of the management APIs, before /v1 or /v2
	QueueURL    string             // of the job API, before /v2
	KeyVariable string             // environment variable that usually holds the API key
}

// Services are the clouds by name.
var Services = map[string]Service{
	"runpod": {
		BaseURLs:    map[Version]string{V2: "https://api.runpod.io", V1: "https://rest.runpod.io"},
		QueueURL:    "https://api.runpod.ai",
		KeyVariable: "RUNPOD_API_KEY",
	},
}

// SameDeployment reports whether two addresses of management APIs lead to the same objects:
// they are equal, or are the same service's addresses of v1 and v2.
func SameDeployment(a, b string) bool {
	if a == b {
		return true
	}
	for _, s := range Services {
		if a == s.BaseURLs[V1] && b == s.BaseURLs[V2] || a == s.BaseURLs[V2] && b == s.BaseURLs[V1] {
			return true
		}
	}
	return false
}

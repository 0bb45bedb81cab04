package api

import (
	"cmp"
	"strings"
)

// Delegation lets the deployment pull images from a repository in AWS ECR (v2 only). It can't
// be changed.
type Delegation struct {
	ID       string  `json:"id,omitempty"`
	Name     *string `json:"name,omitempty"` // need not be unique
	Resource string  `json:"resource"`       // ARN; assembled from its parts in an answer

	DelegatorUserID   string `json:"delegatorUserId,omitempty"`
	AWSUser           string `json:"awsUser,omitempty"`
	AWSRegion         string `json:"awsRegion,omitempty"`
	Repository        string `json:"repository,omitempty"`
	Tag               string `json:"tag,omitempty"`
	DockerRegistryURI string `json:"dockerRegistryUri,omitempty"`
	CreatedAt         string `json:"createdAt,omitempty"`
}

// delegationsV2: the API lists delegations, but can't read one by id.
func delegationsV2(d *deployment, cache *listCache) Collection[Delegation] {
	return &restCollection[Delegation]{
		deployment: d, cache: cache, kind: "registry delegation", path: "/v2/registries/delegations", member: "delegations",
		listOnly:  true,
		required:  []string{"awsUser", "awsRegion", "repository", "tag"},
		id:        func(g Delegation) string { return g.ID },
		name:      func(g Delegation) string { return deref(g.Name) },
		sameFixed: func(got, want Delegation) bool { return SameRepository(got.Resource, want.Resource) },
		decode:    decodeAs(Delegation.withResource),
		create: func(want Delegation) (any, error) {
			return Delegation{Name: want.Name, Resource: want.Resource}, nil
		},
		update: func(have, want Delegation) (patch, error) {
			if deref(have.Name) != deref(want.Name) || !SameRepository(have.Resource, want.Resource) {
				return nil, errNoUpdate
			}
			return nil, nil
		},
	}
}

// withResource builds the ARN, which no answer has, from its parts.
func (g Delegation) withResource() Delegation {
	partition := "aws"
	for prefix, other := range map[string]string{"cn-": "aws-cn", "us-gov-": "aws-us-gov", "us-iso-": "aws-iso", "us-isob-": "aws-iso-b"} {
		if strings.HasPrefix(g.AWSRegion, prefix) {
			partition = other
		}
	}
	account, _, found := strings.Cut(g.DockerRegistryURI, ".dkr.ecr.")
	if !found {
		account = g.AWSUser
	}
	g.Resource = strings.Join([]string{"arn", partition, "ecr", g.AWSRegion, account, "repository/" + g.Repository}, ":")
	if tag := cmp.Or(g.Tag, defaultTag); tag != defaultTag {
		g.Resource += ":" + tag
	}
	return g
}

const defaultTag = "latest"

// SameRepository reports whether two ARNs name the same images. The default tag is latest.
func SameRepository(a, b string) bool {
	return strings.TrimSuffix(a, ":"+defaultTag) == strings.TrimSuffix(b, ":"+defaultTag)
}

package api

import (
	"cmp"
	"strings"
)

// RegistryAuth is a credential for private images. The API never returns
// Username and Password.
type RegistryAuth struct {
	ID       string `json:"id,omitempty"`
	Name     string `json:"name"` // unique
	Username string `json:"username"`
	Password string `json:"password"`
}

// registryAuths returns the part of the collection that both versions share: all except the
// path, the form of the list and the status for an unknown id.
func registryAuths(d *deployment, cache *listCache) *Collection[RegistryAuth] {
	return &Collection[RegistryAuth]{
		deployment: d, cache: cache, kind: "registry auth", required: []string{"name"},
		uniqueNames: true,
		writeOnly:   true, // answers lack the credentials
		decode:      decodePlain[RegistryAuth],
		create: func(want RegistryAuth) (any, error) {
			want.ID = ""
			return want, nil
		},
		update: func(have, want RegistryAuth) (patch, error) {
			want.ID = have.ID
			if have != want {
				return nil, errMustReplace
			}
			return nil, nil
		},
	}
}

func registryAuthsV1(d *deployment, cache *listCache) *Collection[RegistryAuth] {
	r := registryAuths(d, cache)
	r.path = "/v1/containerregistryauth"
	return r
}

func registryAuthsV2(d *deployment, cache *listCache) *Collection[RegistryAuth] {
	r := registryAuths(d, cache)
	r.path, r.member = "/v2/registries", "registries"
	return r
}

// Delegation lets the deployment pull images from a repository in AWS ECR (v2 only). It can't
// be changed.
type Delegation struct {
	ID       string  `json:"id,omitempty"`
	Name     *string `json:"name,omitempty"` // need not be unique
	Resource string  `json:"resource"`       // ARN; an answer has only its parts

	DelegatorUserID   string `json:"delegatorUserId,omitempty"`
	AWSUser           string `json:"awsUser,omitempty"`
	AWSRegion         string `json:"awsRegion,omitempty"`
	Repository        string `json:"repository,omitempty"`
	Tag               string `json:"tag,omitempty"`
	DockerRegistryURI string `json:"dockerRegistryUri,omitempty"`
	CreatedAt         string `json:"createdAt,omitempty"`
}

// delegationsV2 returns the collection of delegations. The API lists them, but can't read one by id.
func delegationsV2(d *deployment, cache *listCache) *Collection[Delegation] {
	return &Collection[Delegation]{
		deployment: d, cache: cache, kind: "registry delegation", path: "/v2/registries/delegations", member: "delegations",
		listOnly:          true,
		required:          []string{"awsUser", "awsRegion", "repository", "tag"},
		fixedMembersEqual: func(got, want Delegation) bool { return SameRepository(got.Resource, want.Resource) },
		decode:            decodeAs(Delegation.withResource),
		create: func(want Delegation) (any, error) {
			return Delegation{Name: want.Name, Resource: want.Resource}, nil
		},
		update: func(have, want Delegation) (patch, error) {
			if deref(have.Name) != deref(want.Name) || !SameRepository(have.Resource, want.Resource) {
				return nil, errMustReplace
			}
			return nil, nil
		},
	}
}

// withResource builds the ARN, which no answer has, from its parts.
func (g Delegation) withResource() Delegation {
	partition := "aws"
	for prefix, other := range map[string]string{"cn-": "aws-cn", "us-gov-": "aws-us-gov", "us-iso-": "aws-iso", "us-isob-": "aws-iso-b", "eu-isoe-": "aws-iso-e", "us-isof-": "aws-iso-f"} {
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

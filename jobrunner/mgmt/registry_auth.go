package mgmt

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// registryAuthBodyV1 is the body of a create; there is no update.
type registryAuthBodyV1 struct {
	Name     *string `json:"name"`
	Username *string `json:"username"`
	Password *string `json:"password"`
}

type registryAuthBodyV2 registryAuthBodyV1

// registryAuth is a registry auth in an answer of either version. An answer never shows credentials.
type registryAuth struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func createRegistryAuth[B registryAuthBodyV1 | registryAuthBodyV2](c *call, body B) (store.RegistryAuth, error) {
	return c.Store.CreateRegistryAuth(c.ctx(), *registryAuthBodyV1(body).Name, convert[B, store.Credentials](body))
}

// delegationBodyV2 is the body of a create; there is no update.
type delegationBodyV2 struct {
	Resource *string       `json:"resource"`
	Name     clearableText `json:"name"`
}

var ecrARN = pattern(contract.ECRRepository)

// The lengths of a repository's name in ECR.
const (
	minRepository = 2
	maxRepository = 256
)

// defaultTag is the tag that every registry client uses for an image without one.
const defaultTag = "latest"

type delegationV2 struct {
	ID          string    `json:"id"`
	Name        *string   `json:"name"`
	Owner       string    `json:"delegatorUserId"`
	Account     string    `json:"awsUser"`
	Repository  string    `json:"repository"`
	Tag         string    `json:"tag"`
	Region      string    `json:"awsRegion"`
	RegistryURI string    `json:"dockerRegistryUri,omitempty"`
	Created     time.Time `json:"createdAt"`
}

func newDelegationV2(d store.Delegation) delegationV2 {
	var w delegationV2
	copyFields(&w, d)
	if domain, known := ecrDomains[d.Partition]; known {
		w.RegistryURI = fmt.Sprintf("%s.dkr.ecr.%s.%s", d.Account, d.Region, domain)
	}
	return w
}

var ecrDomains = map[string]string{"aws": "amazonaws.com", "aws-cn": "amazonaws.com.cn", "aws-us-gov": "amazonaws.com"}

func createDelegationV2(c *call, body delegationBodyV2) (store.Delegation, error) {
	arn := ecrARN.FindStringSubmatch(*body.Resource) // the body passed this pattern
	if n := len(arn[4]); n < minRepository || n > maxRepository {
		return store.Delegation{}, validationError(fmt.Sprintf("$: the repository in 'resource' has %d characters, want %d to %d", n, minRepository, maxRepository))
	}
	image := store.ECRImage{Partition: arn[1], Region: arn[2], Account: arn[3], Repository: arn[4], Tag: cmp.Or(arn[5], defaultTag)}
	return store.Create(c.ctx(), c.Store, store.Delegation{Head: store.Head{Name: body.Name.Value}, Owner: c.owner, ECRImage: image})
}

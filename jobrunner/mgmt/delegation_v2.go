package mgmt

import (
	"fmt"
	"regexp"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// delegationBodyV2 is the body of a create; there is no update.
type delegationBodyV2 struct {
	Resource *string   `json:"resource" rule:"must form=ecr"`
	Name     reference `json:"name"`
}

// ecrARN is the name of a repository of AWS (ECR), which has the account, region
// and repository of an image. AWS knows no tag in it; one may follow the repository
// as in the reference of an image. Its groups are partition, region, account,
// repository and tag.
var ecrARN = regexp.MustCompile(`^arn:(aws(?:-[a-z]+)*):ecr:([a-z]{2}(?:-[a-z]+)+-[0-9]{1,2}):([0-9]{12}):` +
	`repository/([a-z0-9]+(?:(?:[._/-]|__)[a-z0-9]+)*)(?::([A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?$`)

// The lengths of a repository's name in ECR.
const (
	minRepository = 2
	maxRepository = 256
)

// defaultTag is what an image without a tag means to every client of registries.
const defaultTag = "latest"

// check finds a repository whose name ECR has no room for.
func (b *delegationBodyV2) check(phase) []string {
	if b.Resource == nil {
		return nil
	}
	match := ecrARN.FindStringSubmatch(*b.Resource)
	if match == nil {
		return nil // the form is told of already
	}
	if n := len(match[4]); n < minRepository || n > maxRepository {
		return []string{fmt.Sprintf("the repository in 'resource' has %d characters, want %d to %d", n, minRepository, maxRepository)}
	}
	return nil
}

// delegationV2 is a delegation in an answer.
type delegationV2 struct {
	ID          string    `json:"id"`
	Name        *string   `json:"name"`
	DelegatorID string    `json:"delegatorUserId"`
	AWSUser     string    `json:"awsUser"`
	Repository  string    `json:"repository"`
	Tag         string    `json:"tag"`
	AWSRegion   string    `json:"awsRegion"`
	RegistryURI string    `json:"dockerRegistryUri,omitempty"`
	CreatedAt   time.Time `json:"createdAt"`
}

func newDelegationV2(d store.Delegation) delegationV2 {
	return delegationV2{
		ID: d.ID, Name: orNull(d.Name), DelegatorID: d.Owner, AWSUser: d.Account, Repository: d.Repository, Tag: d.Tag,
		AWSRegion: d.Region, RegistryURI: registryURI(d.ECRImage), CreatedAt: d.Created,
	}
}

// ecrDomains are those of the registries of each partition of AWS.
var ecrDomains = map[string]string{"aws": "amazonaws.com", "aws-cn": "amazonaws.com.cn", "aws-us-gov": "amazonaws.com"}

// registryURI is where the image's registry is; "" where nobody knows: an answer
// need not have it.
func registryURI(i store.ECRImage) string {
	domain, known := ecrDomains[i.Partition]
	if !known {
		return ""
	}
	return fmt.Sprintf("%s.dkr.ecr.%s.%s", i.Account, i.Region, domain)
}

func createDelegationV2(s *server, c *call, body delegationBodyV2) (store.Delegation, error) {
	arn := ecrARN.FindStringSubmatch(*body.Resource) // it matched the rule
	image := store.ECRImage{Partition: arn[1], Region: arn[2], Account: arn[3], Repository: arn[4], Tag: arn[5]}
	if image.Tag == "" {
		image.Tag = defaultTag
	}
	return s.store.CreateDelegation(c.ctx(), store.Delegation{Head: store.Head{Name: body.Name.Value}, Owner: c.owner, ECRImage: image})
}

package api

import (
	"context"
	"fmt"
	"net/url"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// CatalogTemplate is a public template. Source is official, verified or community, or
// "" if it isn't in the catalog's lists, which hold at most 100.
type CatalogTemplate struct {
	Template
	Source string
}

// CatalogTemplates lists the public templates of all sources. It reads each list
// once. API v1 doesn't distinguish verified from community templates.
func (c *Client) CatalogTemplates(ctx context.Context) (all []CatalogTemplate, err error) {
	if c.Version == V1 {
		return c.catalogTemplatesV1(ctx)
	}
	decode := templatesV2(c.deployment, nil).(*restCollection[Template]).decode
	for _, source := range []string{"official", "verified", "community"} {
		list, err := catalogList(ctx, &c.catalog, "templates", "templates", "templates", url.Values{"source": {source}}, decode)
		if err != nil {
			return nil, err
		}
		for _, t := range list {
			all = append(all, CatalogTemplate{t, source})
		}
	}
	return all, nil
}

// CatalogTemplate returns a public template by its id.
func (c *Client) CatalogTemplate(ctx context.Context, id string) (CatalogTemplate, error) {
	all, err := c.CatalogTemplates(ctx)
	if err != nil {
		return CatalogTemplate{}, err
	}
	for _, t := range all {
		if t.ID == id {
			return t, nil
		}
	}
	t, err := c.Templates.Get(ctx, id)
	if err == nil && !t.Public {
		err = fmt.Errorf("the template %s is not public: it is a template of the account", id)
	}
	return CatalogTemplate{Template: t}, err
}

// catalogTemplatesV1 returns the public templates from the list of all templates.
func (c *Client) catalogTemplatesV1(ctx context.Context) ([]CatalogTemplate, error) {
	own := templatesV1(c.deployment, nil).(*restCollection[Template])
	return remember(ctx, &c.catalog, "v1 templates", "asking for public templates", func(ctx context.Context) (all []CatalogTemplate, err error) {
		query := url.Values{"includePublicTemplates": {"true"}, "includeRunpodTemplates": {"true"}, "includeEndpointBoundTemplates": {"true"}}
		elements, err := c.deployment.elements(ctx, httpclient.Call{URL: c.deployment.settings.BaseURL + own.path, Query: query}, "")
		if err != nil {
			return nil, err
		}
		for _, e := range elements {
			t, err := decodeElement(e, own.decode)
			if err != nil {
				return nil, err
			}
			operator, err := decodeElement(e, decodePlain[struct{ IsRunpod, IsPlatform bool }]) // one flag, two names
			switch {
			case err != nil:
				return nil, err
			case operator.IsRunpod || operator.IsPlatform:
				all = append(all, CatalogTemplate{t, "official"})
			case t.Public:
				all = append(all, CatalogTemplate{t, "community"})
			}
		}
		return all, nil
	})
}

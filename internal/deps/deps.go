package deps

import (
	_ "github.com/alecthomas/kong"
	_ "github.com/google/uuid"
	_ "github.com/hashicorp/go-retryablehttp"
	_ "github.com/hashicorp/hc-install"
	_ "github.com/hashicorp/hc-install/product"
	_ "github.com/hashicorp/hc-install/releases"
	_ "github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	_ "github.com/hashicorp/terraform-plugin-framework/providerserver"
	_ "github.com/hashicorp/terraform-plugin-log/tflog"
	_ "github.com/hashicorp/terraform-plugin-testing/helper/resource"
	_ "github.com/hashicorp/terraform-plugin-testing/plancheck"
	_ "github.com/kballard/go-shellquote"
	_ "golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite"
	_ "pgregory.net/rapid"
)

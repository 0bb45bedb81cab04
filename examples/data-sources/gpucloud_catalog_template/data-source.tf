data "gpucloud_catalog_template" "echo" {
  name = "Echo worker"
}

resource "gpucloud_endpoint" "echo" {
  name        = "echo"
  template_id = data.gpucloud_catalog_template.echo.id
}

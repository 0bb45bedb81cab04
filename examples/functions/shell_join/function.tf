terraform {
  required_providers {
    gpucloud = {
      source = "gpucloud/gpucloud"
    }
  }
}

resource "gpucloud_template" "worker" {
  name       = "base-worker"
  image      = "registry.example.com/worker:4"
  serverless = true
  args       = provider::gpucloud::shell_join(["python", "-u", "handler.py", "--model", "base 1.0"]) # python -u handler.py --model 'base 1.0'
}

# An endpoint for an image of the team. On a jobrunner ../../tests/jobrunner.yaml says what
# runs it.

module "worker" {
  source = "../.."

  name  = "hello"
  image = "registry.example.com/team/hello:1"
}

output "run_url" {
  value = module.worker.run_url
}

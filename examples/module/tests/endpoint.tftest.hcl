# The runs create real objects in the deployment that GPUCLOUD_BASE_URL names, and
# remove them at the end. In a jobrunner they cost nothing: jobrunner.yaml says what
# runs the image there.

provider "gpucloud" {}

variables {
  name  = "module-test"
  image = "registry.example.com/team/hello:1"
}

run "refuses_latest" {
  command = plan

  variables {
    image = "registry.example.com/team/hello:latest"
  }

  expect_failures = [var.image]
}

run "creates_an_endpoint" {
  assert {
    condition     = gpucloud_endpoint.worker.workers.max == 1
    error_message = "Expected one worker at most, got ${gpucloud_endpoint.worker.workers.max}."
  }

  assert {
    condition     = endswith(output.run_url, "/v2/${output.endpoint_id}/run")
    error_message = "Invalid run_url: ${output.run_url}"
  }
}

run "answers_a_job" {
  module {
    source = "./tests/answers"
  }

  variables {
    endpoint_id = run.creates_an_endpoint.endpoint_id
    greeting    = "Hello Ada!"
  }
}

run "follows_a_new_image" {
  variables {
    image = "registry.example.com/team/hello:2"
    env   = { GREETING = "Good morning" }
  }

  assert {
    condition     = gpucloud_endpoint.worker.from_template.image == "registry.example.com/team/hello:2"
    error_message = "The workers have the image ${gpucloud_endpoint.worker.from_template.image}."
  }
}

run "answers_with_the_new_environment" {
  module {
    source = "./tests/answers"
  }

  variables {
    endpoint_id = run.follows_a_new_image.endpoint_id
    greeting    = "Good morning Ada!"
  }
}

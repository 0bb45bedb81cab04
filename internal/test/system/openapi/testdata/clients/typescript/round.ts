// Calls the operations that a file lists with a client whose types are generated.
import { readFileSync } from "node:fs";
import createClient from "openapi-fetch";
import type { paths as V1 } from "./v1.js";
import type { components, paths as V2 } from "./v2.js";

interface Step {
  Version: string;
  Operation: string;
  Method: string;
  Path: string;
  Parameters: Record<string, string>;
  Body?: unknown;
  Media: string;
  Status: number;
}

const script: { URL: string; Key: string; Steps: Step[] } = JSON.parse(readFileSync(process.argv[2]!, "utf8"));
const headers = { Authorization: `Bearer ${script.Key}` };
const v1 = createClient<V1>({ baseUrl: script.URL + "/v1", headers });
const v2 = createClient<V2>({ baseUrl: script.URL, headers });

const problems: string[] = [];
for (const step of script.Steps) {
  const client = (step.Version === "v2" ? v2 : v1) as unknown as {
    request(method: string, path: string, init: object): Promise<{ data?: unknown; error?: unknown; response: Response }>;
  };
  const parseAs = step.Media === "text/event-stream" ? "stream" : step.Media === "text/html" ? "text" : "json";
  const { data, error, response } = await client.request(step.Method.toLowerCase(), step.Path, {
    params: { path: step.Parameters },
    body: step.Body,
    parseAs,
  });
  if (data instanceof ReadableStream) await data.cancel();
  if (response.status !== step.Status || (step.Media !== "" && data === undefined)) {
    problems.push(`${step.Version} ${step.Operation}: expected the status ${step.Status}, got ${response.status}: ${JSON.stringify(error)}`);
  }
}

// Typed calls, like those of a user of the client.
const body: components["schemas"]["NetworkVolumeCreate"] = { name: "typed", size: 10, dataCenter: "EU-RO-1" };
const made = await v2.POST("/v2/network-volumes", { body });
if (made.data?.size !== body.size) problems.push(`expected a volume of ${body.size} GB, got ${JSON.stringify(made)}`);
const refused = await v2.POST("/v2/network-volumes", { body: { ...body, size: 1 } });
if (refused.error?.status !== 422) problems.push(`expected a refusal of 1 GB, got ${JSON.stringify(refused)}`);

console.log(`${script.Steps.length - problems.length} operations passed`);
if (problems.length > 0) {
  console.error(problems.join("\n"));
  process.exit(1);
}
process.exit(0);

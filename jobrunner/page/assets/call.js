// Requests to the APIs, with the authority of the signed-in user.

import { exact } from './format.js';

// call performs an operation with the ids {endpoint} and {id}, and throws the API's error. Its member isOutage says
// whether the call can succeed later.
export async function call(op, ids, body) {
  let answer, text;
  try {
    answer = await fetch('/ui/call?' + new URLSearchParams({ op, ...ids }), {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: body ?? '',
    });
    text = await answer.text();
  } catch {
    throw Object.assign(new Error('The deployment can’t be reached.'), { isOutage: true });
  }
  let reply = {};
  try {
    reply = JSON.parse(text, exact);
  } catch (e) {
    if (answer.ok) throw new Error(`The answer can’t be shown here: ${e.message}`);
  }
  if (answer.ok) return reply;
  throw Object.assign(new Error([reply.error ?? reply.message ?? reply.detail ?? answer.statusText, ...(reply.errors ?? [])].join(': ')), { isOutage: [401, 502, 503, 504].includes(answer.status) });
}

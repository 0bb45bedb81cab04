// Requests to the APIs, with the authority of the signed-in user.

import { exact } from './format.js';

// call performs an operation with the ids {endpoint} and {id}, and throws the API's error.
export async function call(op, ids, body) {
  const answer = await fetch('/ui/call?' + new URLSearchParams({ op, ...ids }), {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: body ?? '',
  });
  const reply = await answer.text().then((text) => JSON.parse(text, exact)).catch(() => ({}));
  if (!answer.ok) throw new Error([reply.error ?? reply.message ?? reply.detail ?? answer.statusText, ...(reply.errors ?? [])].join(': '));
  return reply;
}

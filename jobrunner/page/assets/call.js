// Requests to the APIs, with the authority of who is signed in.

// call asks for an operation on what ids name ({endpoint}, {id}), and throws what
// the API says is wrong.
export async function call(op, ids, body) {
  const answer = await fetch('/ui/call?' + new URLSearchParams({ op, ...ids }), {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: body ?? '',
  });
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error([told.error ?? told.message ?? told.detail ?? answer.statusText, ...(told.errors ?? [])].join(': '));
  return told;
}

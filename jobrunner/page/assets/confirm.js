// The dialog that confirms an action, and the line with its result.

import { $, h, setText } from './dom.js';

const dialog = $('confirm');
let asked = null; // the action: {says, run, elsewhere}
let busy = false;

// confirm opens the dialog. title is a question, verb the text of the button. says returns sentences
// that describe the effect; it is called again while the dialog is open. run performs the action and
// returns its result. elsewhere returns the element that gets the focus if the one that had it is
// gone.
export function confirm({ title, verb, says, run, elsewhere }) {
  asked = { says, run, elsewhere };
  busy = false;
  setText($('confirm-title'), title);
  setText($('confirm-yes'), verb);
  setText($('confirm-error'), '');
  setText($('outcome'), '');
  refreshConfirm();
  dialog.showModal();
}

// refreshConfirm updates the text of an open dialog.
export function refreshConfirm() {
  if (!asked) return;
  const sentences = asked.says();
  const box = $('confirm-text');
  if ([...box.children].map((p) => p.textContent).join('\n') !== sentences.join('\n')) box.replaceChildren(...sentences.map((s) => h('p', null, s)));
}

export const closeConfirm = () => dialog.open && dialog.close();

// Ignore a key that is held down: it would confirm the dialog that it opened.
$('confirm-yes').addEventListener('keydown', (e) => { if (e.repeat) e.preventDefault(); });

$('confirm-form').addEventListener('submit', async (e) => {
  e.preventDefault();
  if (busy || !asked) return;
  const mine = asked;
  busy = true;
  setText($('confirm-error'), '');
  try {
    const outcome = await mine.run();
    if (asked === mine) dialog.close();
    setText($('outcome'), outcome);
    document.dispatchEvent(new Event('changed'));
  } catch (error) {
    if (asked === mine) setText($('confirm-error'), error.message);
  } finally {
    if (asked === mine) busy = false;
  }
});
$('confirm-no').addEventListener('click', () => dialog.close());
dialog.addEventListener('click', (e) => { if (e.target === dialog) dialog.close(); }); // outside the dialog
dialog.addEventListener('close', () => {
  if (dialog.open) return; // it is open again
  const { elsewhere } = asked ?? {};
  asked = null;
  const focused = document.activeElement; // the browser restores the focus if its element still exists
  if (focused === document.body || dialog.contains(focused)) elsewhere?.()?.focus();
});

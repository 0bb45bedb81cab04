// The dialog that confirms an action, and the line with its result.

import { $, h, setText } from './dom.js';

const dialog = $('confirm');
let action = null; // the action to confirm: {effects, run, fallbackFocus}
let busy = false;

// confirm opens the dialog. title is a question, verb the text of the button. effects returns sentences
// that describe the action's effects; it is called again while the dialog is open. run performs the
// action and returns its result. fallbackFocus returns the element that gets the focus if the one that
// had it is gone.
export function confirm({ title, verb, effects, run, fallbackFocus }) {
  action = { effects, run, fallbackFocus };
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
  if (!action) return;
  const sentences = action.effects();
  const box = $('confirm-text');
  if ([...box.children].map((p) => p.textContent).join('\n') !== sentences.join('\n')) box.replaceChildren(...sentences.map((s) => h('p', null, s)));
}

export const closeConfirm = () => dialog.open && dialog.close();

// Ignore a key that is held down: it would confirm the dialog that it opened.
$('confirm-yes').addEventListener('keydown', (e) => { if (e.repeat) e.preventDefault(); });

$('confirm-form').addEventListener('submit', async (e) => {
  e.preventDefault();
  if (busy || !action) return;
  const mine = action;
  busy = true;
  setText($('confirm-error'), '');
  try {
    const outcome = await mine.run();
    if (action === mine) dialog.close();
    setText($('outcome'), outcome);
    document.dispatchEvent(new Event('changed'));
  } catch (error) {
    if (action === mine) setText($('confirm-error'), error.message);
  } finally {
    if (action === mine) busy = false;
  }
});
$('confirm-no').addEventListener('click', () => dialog.close());
dialog.addEventListener('close', () => {
  if (dialog.open) return; // it is open again
  const { fallbackFocus } = action ?? {};
  action = null;
  const focused = document.activeElement; // the browser restores the focus if its element still exists
  if (focused === document.body || dialog.contains(focused)) fallbackFocus?.()?.focus();
});

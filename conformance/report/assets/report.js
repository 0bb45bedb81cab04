"use strict";
// Adds search, filters and copy buttons to the page.
(() => {
  const tools = document.getElementById("tools");
  if (!tools) return;
  const clauses = [...document.querySelectorAll(".clause")];
  const areas = [...document.querySelectorAll(".area")];
  const input = document.getElementById("q");
  const shown = document.getElementById("shown");
  const clear = document.getElementById("clear");
  const noMatch = document.querySelector(".no-match");
  const buttons = [...tools.querySelectorAll(".chips button")];
  const texts = new Map(); // lower-case text by clause, cached

  const textOf = (clause) => {
    if (!texts.has(clause)) texts.set(clause, clause.textContent.toLowerCase());
    return texts.get(clause);
  };
  const pressed = (kind) => new Set(buttons.filter((b) => b.dataset[kind] && b.getAttribute("aria-pressed") === "true").map((b) => b.dataset[kind]));

  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const levels = pressed("level"), verdicts = pressed("verdict");
    let count = 0;
    for (const c of clauses) {
      const matches = (!levels.size || levels.has(c.dataset.level)) && (!verdicts.size || verdicts.has(c.dataset.verdict)) && words.every((w) => textOf(c).includes(w));
      c.hidden = !matches;
      count += matches;
    }
    for (const a of areas) a.hidden = !a.querySelector(".clause:not([hidden])");
    const all = !words.length && !levels.size && !verdicts.size;
    shown.textContent = all ? `${clauses.length} clauses` : `${count} of ${clauses.length} clauses`;
    clear.hidden = all;
    noMatch.hidden = count > 0;
  };

  // The URL contains the filter, so that it can be shared.
  const saveFilter = () => {
    const p = new URLSearchParams();
    if (input.value.trim()) p.set("q", input.value.trim());
    for (const kind of ["level", "verdict"]) {
      const values = [...pressed(kind)];
      if (values.length) p.set(kind, values.join(","));
    }
    history.replaceState(null, "", p.size ? `#?${p}` : location.pathname + location.search);
  };
  const change = () => { filter(); saveFilter(); };
  const reset = () => {
    input.value = "";
    for (const b of buttons) b.setAttribute("aria-pressed", "false");
    filter();
  };

  // The URL's hash names a filter or a clause.
  const applyHash = () => {
    const hash = decodeURIComponent(location.hash.slice(1));
    if (hash.startsWith("?")) {
      const p = new URLSearchParams(location.hash.slice(2));
      input.value = p.get("q") ?? "";
      for (const b of buttons) {
        const kind = b.dataset.level ? "level" : "verdict";
        b.setAttribute("aria-pressed", String((p.get(kind) ?? "").split(",").includes(b.dataset[kind])));
      }
      filter();
      return;
    }
    const target = hash && document.getElementById(hash);
    if (!target) return;
    if (target.hidden) reset();
    if (target.matches(".clause")) target.open = true;
    target.scrollIntoView();
  };

  for (const b of buttons) {
    b.addEventListener("click", () => {
      b.setAttribute("aria-pressed", String(b.getAttribute("aria-pressed") !== "true"));
      change();
    });
  }
  input.addEventListener("input", change);
  tools.addEventListener("submit", (e) => e.preventDefault());
  for (const b of [clear, noMatch.querySelector("button")]) b.addEventListener("click", () => { reset(); saveFilter(); });
  addEventListener("hashchange", applyHash);
  // A link to the current hash fires no hashchange.
  document.addEventListener("click", (e) => {
    const link = e.target.closest('a[href^="#"]');
    if (link && link.hash === location.hash) applyHash();
  });
  addEventListener("keydown", (e) => {
    if (e.key === "/" && !e.target.closest("input") && !e.ctrlKey && !e.metaKey && !e.altKey) {
      e.preventDefault();
      input.focus();
    } else if (e.key === "Escape" && e.target === input) {
      reset();
      saveFilter();
    }
  });

  // Collapses a long list.
  const alerts = document.querySelector(".alerts");
  const shownAlerts = 12;
  if (alerts && alerts.querySelectorAll("li").length > shownAlerts + 2) {
    const rest = [...alerts.querySelectorAll("li")].slice(shownAlerts);
    const more = alerts.querySelector(".more");
    for (const li of rest) li.hidden = true;
    more.textContent = `${rest.length} more`;
    more.hidden = false;
    more.addEventListener("click", () => {
      for (const li of rest) li.hidden = false;
      more.hidden = true;
      rest[0].querySelector("a").focus();
    });
  }

  for (const box of document.querySelectorAll(".copy")) {
    const button = box.querySelector("button"), text = box.querySelector("pre");
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text.textContent);
        button.textContent = "Copied";
      } catch { // not allowed: the user can copy the selection
        getSelection().selectAllChildren(text);
        button.textContent = "Selected";
      }
    });
  }

  tools.hidden = false;
  filter();
  applyHash();
})();

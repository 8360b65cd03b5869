"use strict";

// The tables are whole without this script: it only hides what a reader does not ask for.

const $ = (id) => document.getElementById(id);
const FILTERS = ["split", "setting", "kind", "type", "model"].map($).filter(Boolean);

function apply() {
  const { split, setting, kind, type, model } = Object.fromEntries(FILTERS.map((one) => [one.id, one.value]));
  const words = model.trim().toLowerCase();
  let tables = 0;
  const models = new Set();
  for (const board of document.querySelectorAll(".board")) {
    const fits = [[split, "split"], [setting, "setting"], [kind, "kind"]].every(
      ([wanted, name]) => !wanted || board.dataset[name] === wanted,
    );
    let rows = 0;
    for (const row of board.querySelectorAll("tr[data-model]")) {
      const hits = row.dataset.model.toLowerCase().includes(words);
      row.hidden = !hits;
      if (hits && row.classList.contains("model")) rows += 1;
      if (hits && fits && row.classList.contains("model")) models.add(row.dataset.model);
    }
    for (const block of board.querySelectorAll(".not-ranked")) {
      block.hidden = block.querySelector("tr[data-model]:not([hidden])") === null;
    }
    const hasType = !type || board.querySelector(`td[data-type="${CSS.escape(type)}"]`) !== null;
    board.hidden = !(fits && hasType && (rows || !words));
    tables += board.hidden ? 0 : 1;
    showType(board, type ?? "");
  }
  if (type) document.body.dataset.type = type;
  else delete document.body.dataset.type;
  $("nothing").hidden = tables > 0;
  $("shown").textContent = `${models.size} model${models.size === 1 ? "" : "s"}, ${tables} table${tables === 1 ? "" : "s"}`;
}

// By one type, its column alone is shown, best first; by none, all of them in the order of the whole.
function showType(board, type) {
  const table = board.querySelector(".by-type");
  const rows = [...table.tBodies[0].rows];
  rows.forEach((row, i) => (row.dataset.place ??= i));
  for (const cell of table.querySelectorAll("[data-type]")) cell.classList.toggle("chosen", cell.dataset.type === type);
  const value = (row) => Number(row.querySelector("td.chosen")?.dataset.value ?? 0);
  rows.sort((a, b) => value(b) - value(a) || a.dataset.place - b.dataset.place);
  table.tBodies[0].append(...rows);
  const details = table.closest("details");
  if (type && !details.dataset.chosen) details.dataset.was = details.open;
  if (type) details.open = true;
  else if (details.dataset.chosen) details.open = details.dataset.was === "true";
  details.dataset.chosen = type;
}

// What is chosen stands in the address, so that it can be sent to somebody.
function remember() {
  const chosen = FILTERS.filter((one) => one.value).map((one) => [one.id, one.value]);
  const address = new URLSearchParams(chosen).toString();
  history.replaceState(null, "", address ? `#${address}` : location.pathname + location.search);
}

function recall() {
  const asked = new URLSearchParams(location.hash.slice(1));
  for (const one of FILTERS) {
    const wanted = asked.get(one.id) ?? "";
    one.value = wanted;
    if (one.value !== wanted) one.value = "";
  }
}

for (const one of FILTERS) {
  one.addEventListener("input", () => {
    apply();
    remember();
  });
}
$("filters").addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("hashchange", () => {
  if (!location.hash.startsWith("#board")) {
    recall();
    apply();
  }
});
$("filters").hidden = false;
recall();
apply();

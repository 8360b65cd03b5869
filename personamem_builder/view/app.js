"use strict";

// --- state

let index;
let types; // short names of question types
let split; // its number
let run = -1; // whose answers the list shows
let opening = 0; // counts up: what was asked for before is dropped
let contextOpening = 0;
let questions = []; // of the split, as far as they are there
let listed = []; // places in `questions` that pass the filters
let question = null;
let context = null;
let hits = [];
let hitsOf = new Map(); // by message
let hit = -1;
const contexts = new Map(); // a few, by file name

const list = new VirtualList($("list"), makeRow, () => 76);
const chat = new VirtualList($("chat"), makeItem, estimate);

// --- address: #split/question[/message]

function hash(row, message) {
  const parts = [index.splits[split].name, row.question_id];
  return `#${parts.map(encodeURIComponent).join("/")}${message === undefined ? "" : `/${message}`}`;
}

function address() {
  const [name, id, message] = location.hash.slice(1).split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { name, id, message: /^\d+$/.test(message ?? "") ? Number(message) : undefined };
}

function route() {
  const { name, id, message } = address();
  const found = index.splits.findIndex((one) => one.name === name);
  if (name && found < 0) say(`there is no split ${name}`);
  if (found >= 0 && found !== split) {
    openSplit(found);
    return;
  }
  const row = questions.find((one) => one.question_id === id);
  if (row) openQuestion(row, message);
  else if (id && found >= 0) say(`there is no question ${id} in ${name}`);
}

function go(row, message) {
  const wanted = hash(row, message);
  if (location.hash === wanted) openQuestion(row, message);
  else location.hash = wanted;
}

function say(text) {
  $("status").textContent = text;
}

// --- the questions of a split

async function openSplit(chosen) {
  const mine = ++opening;
  split = chosen;
  questions = [];
  listed = [];
  question = null;
  run = -1;
  const entry = index.splits[split];
  fillFilters(entry);
  const [others, histories] = entry.left_out;
  $("sample").textContent = histories
    ? `a sample: ${entry.contexts} of ${number(entry.contexts + histories)} histories, with their questions (${number(entry.questions)} of ${number(entry.questions + others)})`
    : "";
  list.reset(0);
  for (let chunk = 0; chunk < entry.chunks; chunk++) {
    say(`loading questions: ${number(questions.length)} of ${number(entry.questions)}`);
    const kinds = ["questions", ...(entry.runs.length ? ["answers"] : [])];
    let columns, answers;
    try {
      [columns, answers] = await Promise.all(kinds.map((kind) => load(`data/${chosen}/${kind}-${chunk}.js`)));
    } catch (error) {
      if (mine === opening) say(error.message);
      return;
    }
    if (mine !== opening) return;
    const rows = columns.question_id.map((_, i) =>
      Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, column[i]])),
    );
    rows.forEach((row, i) => {
      row.answers = answers ? answers.map((of) => of[i]) : [];
      row.words = [row.question_id, row.user_question_or_message, ...row.options].join("\n").toLowerCase();
    });
    questions = questions.concat(rows);
    filter(true);
    const { name, id, message } = address();
    const wanted = name === entry.name && id;
    const row = wanted ? rows.find((one) => one.question_id === id) : rows[0];
    if (row && !question) wanted ? openQuestion(row, message) : location.replace(hash(row));
  }
  const { name, id } = address();
  const isThere = name !== entry.name || !id || questions.some((row) => row.question_id === id);
  say(isThere ? "" : `there is no question ${id} in ${entry.name}`);
}

function fillFilters(entry) {
  const choose = (id, all, options) => {
    const chosen = options.map(([value, text]) => make("option", { value }, text));
    $(id).replaceChildren(...(all ? [make("option", { value: "" }, all)] : []), ...chosen);
  };
  choose("split", "", index.splits.map((one, i) => [i, `${one.name} (${number(one.questions)})`]));
  choose("persona", "all", entry.personas.map(([value, many]) => [value, `${value} (${number(many)})`]));
  choose("type", "all", entry.types.map(([value, many]) => [value, `${types.get(value) ?? value} (${number(many)})`]));
  choose("topic", "all", entry.topics.map(([value, many]) => [value, `${value} (${number(many)})`]));
  choose("telling", "all", entry.tellings.map(([value, many]) => [value, `${value} (${number(many)})`]));
  choose("run", "no model", entry.runs.map((one, i) => [i, [one.label, ...one.notes].join(", ")]));
  $("split").value = split;
  $("verdict").value = "";
  $("find-question").value = "";
  document.body.classList.toggle("has-runs", entry.runs.length > 0);
  document.body.classList.toggle("has-tellings", entry.tellings.length > 0);
}

// `right`, `wrong`, `tied`, `none`, `skipped` or `absent`, by the first score of a run.
function verdict(row, of) {
  const given = row.answers[of];
  if (!given) return "absent";
  const [letters, credits, skipped] = given;
  if (skipped) return "skipped";
  if (letters[0] === "") return "none";
  if (credits[0] === 1) return "right";
  return credits[0] === 0 ? "wrong" : "tied";
}

const SIGNS = { right: "✓", wrong: "✗", tied: "≈", none: "∅", skipped: "»", absent: "–" };
const WORDS = { none: "no option could be read", skipped: "skipped, too long", absent: "not asked" };

function filter(grows = false) {
  const [persona, type, topic, telling, wanted] = ["persona", "type", "topic", "telling", "verdict"].map(
    (id) => $(id).value,
  );
  const words = $("find-question").value.trim().toLowerCase();
  run = $("run").value === "" ? -1 : Number($("run").value);
  $("verdict").disabled = run < 0;
  listed = [];
  questions.forEach((row, i) => {
    if (persona && String(row.persona_id) !== persona) return;
    if (type && row.question_type !== type) return;
    if (topic && row.topic !== topic) return;
    if (telling && row.telling !== telling) return;
    if (run >= 0 && wanted && verdict(row, run) !== wanted) return;
    if (words && !row.words.includes(words)) return;
    listed.push(i);
  });
  if (grows) list.grow(listed.length);
  else list.reset(listed.length);
  showPlace();
  if (!grows && place() >= 0) list.reveal(place());
}

// Where the open question is in the list, -1 if it is not.
function place() {
  return question ? listed.findIndex((i) => questions[i] === question) : -1;
}

// What share of the listed questions the chosen run answers right, by its first score; empty without a run.
function accuracy() {
  const given = run < 0 ? [] : listed.map((i) => questions[i].answers[run]).filter(Boolean);
  if (!given.length) return "";
  const right = given.reduce((sum, [, credits]) => sum + credits[0], 0) / given.length;
  return `, ${(100 * right).toFixed(1)} % right`;
}

function showPlace() {
  const total = index.splits[split].questions;
  const at = place();
  $("count").textContent = `${at < 0 ? "" : `${number(at + 1)} of `}${number(listed.length)}${
    listed.length === total ? "" : ` (${count(total, "question")} in all)`
  }${accuracy()}`;
  $("previous-question").disabled = !listed.length || at === 0;
  $("next-question").disabled = !listed.length || at === listed.length - 1;
}

function step(by) {
  const at = place();
  const to = at < 0 ? 0 : at + by;
  if (to >= 0 && to < listed.length) go(questions[listed[to]]);
}

function makeRow(at) {
  const row = questions[listed[at]];
  const about = `persona ${row.persona_id} · ${types.get(row.question_type) ?? row.question_type} · ${row.topic}`;
  const link = make("a", { href: hash(row), class: "row" });
  link.addEventListener("click", () => openPane("history"));
  if (row === question) link.setAttribute("aria-current", "true");
  const head = make("span", { class: "about" }, about);
  if (run >= 0) {
    const found = verdict(row, run);
    head.prepend(make("b", { class: `sign ${found}`, title: WORDS[found] ?? found }, SIGNS[found]), " ");
  }
  link.append(head, make("span", { class: "asked", dir: "auto" }, row.user_question_or_message));
  return make("div", { class: "entry" }, link);
}

// --- panes, which a narrow window shows one at a time

function openPane(name) {
  document.body.dataset.pane = name;
  for (const tab of $("tabs").children) tab.setAttribute("aria-pressed", tab.dataset.to === name);
  // Those that were hidden had no size.
  chat.resized();
  list.resized();
  redraw();
}

// --- the reader's hands

function later(act, delay) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(act, delay);
  };
}

function focusSearch(id) {
  openPane(id === "find-question" ? "questions" : "history");
  $(id).focus();
  $(id).select();
}

const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  e: () => stepEvidence(1),
  E: () => stepEvidence(-1),
  q: toQuestion,
  n: () => stepHit(1),
  N: () => stepHit(-1),
  s: () => focusSearch("find-question"),
  "/": () => focusSearch("find-message"),
};

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "f") {
    event.preventDefault(); // the browser's search sees only what is in the document
    focusSearch("find-message");
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

for (const id of ["persona", "type", "topic", "telling", "run", "verdict"]) $(id).addEventListener("change", () => filter());
$("find-question").addEventListener("input", later(() => filter(), 120));
$("split").addEventListener("change", () => {
  location.hash = `#${encodeURIComponent(index.splits[Number($("split").value)].name)}`;
});
$("previous-question").addEventListener("click", () => step(-1));
$("next-question").addEventListener("click", () => step(1));
$("find-message").addEventListener("input", later(search, 150));
$("find-message").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  stepHit(event.shiftKey ? -1 : 1);
});
$("previous-hit").addEventListener("click", () => stepHit(-1));
$("next-hit").addEventListener("click", () => stepHit(1));
$("session").addEventListener("change", () => {
  if ($("session").value !== "") showMessage(Number($("session").value));
  $("session").value = "";
});
$("message").addEventListener("change", () => {
  if ($("message").value !== "") showMessage(Number($("message").value));
});
$("to-question").addEventListener("click", toQuestion);
for (const tab of $("tabs").children) tab.addEventListener("click", () => openPane(tab.dataset.to));
new ResizeObserver(later(redraw, 50)).observe($("detail"));
window.addEventListener("hashchange", route);

async function start() {
  openPane("history");
  try {
    index = await load("data/index.js");
  } catch (error) {
    say(error.message);
    return;
  }
  types = new Map(index.short_types);
  $("title").textContent = `${index.title} ${index.version}`;
  $("title").title = `${index.source}, digest ${index.digest}`;
  document.title = index.title;
  if (index.home) {
    $("home").href = index.home;
    $("home").hidden = false;
  }
  const { name } = address();
  const found = index.splits.findIndex((one) => one.name === name);
  openSplit(Math.max(0, found));
}

start();

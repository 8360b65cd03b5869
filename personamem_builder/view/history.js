"use strict";

// --- a question and its history

async function openQuestion(row, message) {
  const mine = ++contextOpening;
  const isNew = question !== row;
  question = row;
  for (const [at, node] of list.nodes) {
    const isThis = questions[listed[at]] === row;
    if (isThis) node.firstChild.setAttribute("aria-current", "true");
    else node.firstChild.removeAttribute("aria-current");
  }
  showPlace();
  if (place() >= 0) list.reveal(place());
  document.title = `${row.user_question_or_message.slice(0, 60)} – ${index.title}`;
  const file = `data/${split}/context-${row.context}.js`;
  if (!contexts.has(file)) {
    context = null;
    showQuestion();
    chat.reset(0);
    $("history-head").textContent = "History: loading…";
    let loaded;
    try {
      loaded = await load(file);
    } catch (error) {
      if (mine === contextOpening) $("history-head").textContent = `History: ${error.message}`;
      return;
    }
    contexts.set(file, prepared(loaded));
    if (contexts.size > 3) contexts.delete(contexts.keys().next().value);
  }
  if (mine !== contextOpening) return;
  const sameContext = context === contexts.get(file);
  context = contexts.get(file);
  if (isNew || !sameContext) {
    showQuestion();
    showHistory();
  }
  if (message === undefined) chat.scrollTo(row.end_index_in_shared_context);
  else showMessage(message);
}

function prepared(loaded) {
  const sessionOf = new Map(loaded.sessions.map((session) => [session[0], session]));
  const length = loaded.text.length;
  const letters = new Float64Array(length + 1); // before each message
  for (let i = 0; i < length; i++) letters[i + 1] = letters[i] + loaded.texts[loaded.text[i]].length;
  return { ...loaded, sessionOf, letters, length };
}

const textOf = (message) => context.texts[context.text[message]];
const end = () => question.end_index_in_shared_context;
const itemOf = (message) => (message < end() ? message : message + 1);
const evidence = () => [...new Set(question.evidence_message_indices)].sort((a, b) => a - b);

function sessionName([, ordinal, topic, date]) {
  if (!ordinal) return "filler";
  return `session ${ordinal}: ${[topic, date].filter(Boolean).join(", ") || "topic and date unknown"}`;
}

// The session that a message lies in.
function sessionAt(message) {
  return context.sessions.findLast(([start]) => start <= message);
}

function showHistory() {
  const { length, tokens, persona, sessions } = context;
  const real = sessions.filter(([, ordinal]) => ordinal);
  const size = [count(length, "message"), count(real.length, "session"), count(tokens, "token")].join(", ");
  $("history-head").textContent = `History of persona ${persona}: ${size}`;
  $("session").replaceChildren(
    make("option", { value: "" }, "jump to…"),
    ...real.map((session) => make("option", { value: session[0] }, sessionName(session))),
  );
  $("message").max = length - 1;
  $("message").value = "";
  $("evidence-buttons").replaceChildren(...evidenceButtons());
  chat.reset(length + 1);
  search();
}

function evidenceButtons() {
  const found = evidence();
  if (!found.length) return ["no evidence is recorded in this dataset"];
  return found.map((message, i) => {
    const name = `evidence ${i + 1}`;
    const node = make("button", { type: "button", class: "to-evidence", title: `message ${message}` }, `★ ${name}`);
    node.addEventListener("click", () => showMessage(message));
    return node;
  });
}

function showMessage(message) {
  if (!context?.length) return;
  const to = Math.max(0, Math.min(message, context.length - 1));
  openPane("history");
  chat.scrollTo(itemOf(to));
  // What was reached before may still be in sight.
  for (const node of chat.nodes.values()) node.classList.remove("reached");
  chat.nodes.get(itemOf(to))?.classList.add("reached");
  $("message").value = to;
}

function toQuestion() {
  if (!context) return;
  openPane("history");
  chat.scrollTo(end());
}

// To the next evidence below the middle of what is seen, or the previous one above it.
function stepEvidence(by) {
  const found = context ? evidence() : [];
  if (!found.length) return;
  const at = found.indexOf(Number($("message").value || -1));
  showMessage(found[at < 0 ? (by > 0 ? 0 : found.length - 1) : (at + by + found.length) % found.length]);
}

function estimate(item, width) {
  if (!context || !question) return 60;
  if (item === end()) return 160;
  const message = item < end() ? item : item - 1;
  const lines = Math.ceil(textOf(message).length / Math.max(20, (width - 70) / 7.4));
  return 22 * lines + 44 + (context.sessionOf.has(message) ? 44 : 0);
}

function makeItem(item) {
  return item === end() ? makeQuestion() : makeMessage(item < end() ? item : item - 1);
}

function makeMessage(message) {
  const role = context.roles[context.role[message]];
  const node = make("div", { class: "item" });
  const session = context.sessionOf.get(message);
  if (session) node.append(make("h3", { class: session[1] ? "session" : "session filler" }, sessionName(session)));
  const found = evidence().indexOf(message);
  const head = make("p", { class: "head" }, make("b", {}, role), ` ${message}`);
  const body = make("div", { class: "text", dir: "auto" }, ...marked(textOf(message), rangesOf(message, found >= 0)));
  const box = make("div", { class: "message" }, head, body);
  box.dataset.message = message;
  box.dataset.role = role === "user" || role === "system" ? role : "assistant";
  if (found >= 0) {
    box.classList.add("evidence");
    head.append(" ", make("span", { class: "tag" }, `★ evidence ${found + 1} of ${evidence().length}`));
  }
  if (message >= end()) {
    box.classList.add("after");
    head.append(" ", make("span", { class: "tag" }, "after the question: not seen"));
  }
  node.append(box);
  return node;
}

function makeQuestion() {
  const where = `the question, after ${number(end())} of ${count(context.length, "message")}; what follows is not seen`;
  const node = make("div", { class: "item" });
  const box = make("div", { class: "message asked-here" });
  const options = make("button", { type: "button", class: "to-options" }, "options and answers");
  options.addEventListener("click", () => openPane("question"));
  box.append(
    make("p", { class: "head" }, make("b", {}, "user"), " ", make("span", { class: "tag" }, "? question")),
    make("div", { class: "text", dir: "auto" }, question.user_question_or_message),
    options,
  );
  node.append(make("h3", { class: "session" }, where), box);
  return node;
}

// A text with parts of it marked; `ranges` are [start, end, class, title], in order, and do not overlap.
function marked(text, ranges) {
  const parts = [];
  let at = 0;
  for (const [from, to, kind, title] of ranges) {
    parts.push(text.slice(at, from), make("mark", { class: kind, ...(title ? { title } : {}) }, text.slice(from, to)));
    at = to;
  }
  return [...parts, text.slice(at)];
}

function rangesOf(message, isEvidence) {
  const found = hitsOf.get(message);
  if (found) return found.map((i) => [hits[i].from, hits[i].to, i === hit ? "hit current" : "hit"]);
  return isEvidence ? statesIn(textOf(message)) : [];
}

// --- search in the history

const MOST_HITS = 20000;

function search() {
  const words = $("find-message").value;
  hits = [];
  hitsOf = new Map();
  hit = -1;
  if (context && words.trim()) {
    const any = new RegExp(pattern(words), "giu");
    for (let message = 0; message < context.length && hits.length < MOST_HITS; message++) {
      for (const match of textOf(message).matchAll(any)) {
        if (!hitsOf.has(message)) hitsOf.set(message, []);
        hitsOf.get(message).push(hits.length);
        hits.push({ message, from: match.index, to: match.index + match[0].length });
      }
    }
  }
  showHits();
  chat.refresh();
}

function showHits() {
  const many = hits.length < MOST_HITS ? number(hits.length) : `${number(MOST_HITS)} or more`;
  const asked = $("find-message").value.trim() !== "";
  const found = !hits.length ? "no hit" : hits.length === 1 ? "1 hit" : `${many} hits`;
  $("hits").textContent = !asked ? "" : hit < 0 ? found : `${number(hit + 1)} of ${many}`;
  $("previous-hit").disabled = $("next-hit").disabled = !hits.length;
}

function stepHit(by) {
  if (!hits.length) return;
  // The first step goes to the hit nearest to what is seen.
  const seen = chat.atTop().index;
  const nearest =
    by > 0
      ? hits.findIndex(({ message }) => itemOf(message) >= seen)
      : hits.findLastIndex(({ message }) => itemOf(message) <= seen);
  const from = nearest < 0 ? (by > 0 ? 0 : hits.length - 1) : nearest;
  hit = hit < 0 ? from : (hit + by + hits.length) % hits.length;
  showHits();
  openPane("history");
  chat.clear();
  chat.scrollTo(itemOf(hits[hit].message));
  const mark = $("chat").querySelector("mark.current");
  if (!mark) return;
  const [inner, outer] = [mark.getBoundingClientRect(), $("chat").getBoundingClientRect()];
  if (inner.top >= outer.top && inner.bottom <= outer.bottom) return;
  $("chat").scrollTop += inner.top - outer.top - outer.height / 3;
}

"use strict";
// The rating sheet. All text from the data is set as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const items = data.items;
  const checks = Object.keys(data.checks);
  const STORE = `personamem-annotation-${data.sample}`;
  const MOST_HITS = 2000; // the first letter of a word stands everywhere in a long history
  const byId = (id) => document.getElementById(id);
  const letter = (index) => String.fromCharCode(97 + index);

  /** Make an element with a class, text and children. */
  function make(tag, { className = "", text = "", ...properties } = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    if (className) element.className = className;
    if (text) element.textContent = text;
    element.append(...children);
    return element;
  }

  function notice(text, warning = false) {
    byId("notice").textContent = text;
    byId("notice").classList.toggle("warning", warning);
  }

  // --- what the rater has said: {rater, at, answers: {id: {picked, best, <check>, comment}}} -------------------
  // `picked` is a choice that is not kept yet; `best` is kept, and with it the right response has been shown.

  const emptyState = () => ({ rater: "", at: 0, answers: {} });
  let state = readStore();

  function readStore() {
    try {
      const found = JSON.parse(localStorage.getItem(STORE));
      return found && typeof found.answers === "object" ? { ...emptyState(), ...found } : emptyState();
    } catch {
      return emptyState();
    }
  }

  function keepState() {
    try {
      localStorage.setItem(STORE, JSON.stringify(state));
    } catch {
      notice("This browser keeps no answers for this page: save them to a file before you close it.", true);
    }
  }

  const item = () => items[state.at];
  const answerOf = (id) => (Object.hasOwn(state.answers, id) ? state.answers[id] : {});

  function answer(name, value) {
    state.answers[item().id] = { ...answerOf(item().id), [name]: value };
    keepState();
    showProgress();
  }

  const isDone = (id) => Boolean(answerOf(id).best) && checks.every((name) => answerOf(id)[name]);

  function rightIndex({ id, options, seal }) {
    let digest = 0x811c9dc5;
    for (const byte of new TextEncoder().encode(`${data.sample}:${id}`)) {
      digest = Math.imul(digest ^ byte, 0x01000193);
    }
    return (seal + options.length - ((digest >>> 16) % options.length)) % options.length;
  }

  // --- an item ---------------------------------------------------------------------------------------------------

  function showItem() {
    const { message, options } = item();
    byId("title").textContent = `Item ${state.at + 1} of ${items.length}`;
    byId("message").textContent = message;
    byId("best").replaceChildren(
      make("legend", { text: data.best }),
      ...options.map((text, index) => choice("best", letter(index), `(${letter(index)})`, text)),
      choice("best", data.unsure, "(u)", "unsure"),
    );
    byId("checks").replaceChildren(
      ...checks.map((name) => {
        const hint = make("small", { text: "yes, no or unsure" });
        const legend = make("legend", { text: `${data.checks[name]} ` }, hint);
        const verdicts = data.verdicts.map((verdict) => choice(name, verdict, "", verdict));
        return make("fieldset", { id: `check-${name}` }, legend, ...verdicts);
      }),
    );
    byId("comment").value = answerOf(item().id).comment ?? "";
    byId("previous").disabled = state.at === 0;
    byId("next").disabled = state.at === items.length - 1;
    showAnswers();
    showProgress();
    showHistory();
  }

  function choice(name, value, lead, text) {
    const input = make("input", { type: "radio", name, value });
    input.addEventListener("change", () => choose(name, value));
    return make("label", { className: "choice" }, input, make("span", { className: "option", text: `${lead} ${text}`.trim() }));
  }

  /** Bring buttons and the reference response in line with the answers to the item. */
  function showAnswers() {
    const given = answerOf(item().id);
    for (const input of document.querySelectorAll("#best input, #checks input")) {
      const value = input.name === "best" ? given.best ?? given.picked : given[input.name];
      input.checked = input.value === value;
    }
    byId("best").disabled = Boolean(given.best);
    byId("keep").hidden = Boolean(given.best);
    byId("keep").disabled = !given.picked;
    byId("reference").hidden = !given.best;
    if (given.best) {
      const right = letter(rightIndex(item()));
      byId("reference-title").textContent = `The response taken to be right is (${right})`;
      byId("response").textContent = item().options[rightIndex(item())];
      const chosen = given.best === data.unsure ? "You were unsure." : `You chose (${given.best}).`;
      byId("verdict").textContent = given.best === right ? `${chosen} It is the same.` : chosen;
    }
    const open = openCheck();
    for (const name of checks) byId(`check-${name}`).classList.toggle("now", name === open);
  }

  const openCheck = () => checks.find((name) => !answerOf(item().id)[name]);

  function choose(name, value) {
    answer(name === "best" ? "picked" : name, value);
    showAnswers();
    if (name !== "best" && openCheck()) byId(`check-${openCheck()}`).scrollIntoView({ block: "nearest" });
    if (isDone(item().id)) {
      const left = items.filter(({ id }) => !isDone(id)).length;
      notice(left ? "This item is complete." : "All items are complete: save your answers to a file.");
    }
  }

  function keepChoice() {
    answer("best", answerOf(item().id).picked);
    showAnswers();
    byId("reference-title").focus();
  }

  function showProgress() {
    const done = items.filter(({ id }) => isDone(id)).length;
    Object.assign(byId("progress"), { max: items.length, value: done });
    byId("count").textContent = `${done} of ${items.length} complete`;
    byId("open").disabled = done === items.length;
    byId("rater").value = state.rater;
  }

  function goTo(place) {
    if (place < 0 || place >= items.length) return;
    state.at = place;
    keepState();
    notice("");
    showItem();
    byId("title").focus();
    window.scrollTo({ top: byId("title").offsetTop - 8 });
  }

  function goToOpen() {
    const after = [...items.keys()].map((step) => (state.at + 1 + step) % items.length);
    const place = after.find((index) => !isDone(items[index].id));
    if (place !== undefined) goTo(place);
  }

  // --- its history, and the search in it -----------------------------------------------------------------------

  const loaded = new Map();
  let texts = []; // [element, text] of each message
  let hits = [];
  let hit = -1;

  window.personamemHistory = (file, lines) => loaded.set(file, lines);

  function showHistory() {
    const { lines, file, end } = item();
    if (lines) return drawHistory(lines);
    if (loaded.has(file)) return drawHistory(loaded.get(file).slice(0, end));
    byId("history").replaceChildren(make("p", { className: "dim", text: "Loading the history…" }));
    const script = make("script", { src: file });
    script.addEventListener("load", () => {
      script.remove();
      if (item().file === file) showHistory();
    });
    script.addEventListener("error", () => {
      script.remove();
      const text = `${file} cannot be loaded: the folder “histories” has to lie beside this page.`;
      if (item().file === file) byId("history").replaceChildren(make("p", { className: "warning", text }));
    });
    document.head.append(script);
  }

  function drawHistory(lines) {
    texts = [];
    byId("history").replaceChildren(...lines.map(drawLine));
    byId("history").classList.toggle("long", lines.length > 1000);
    byId("history").scrollTop = item().file ? byId("history").scrollHeight : 0;
    search();
  }

  function drawLine(line) {
    if (line.session) return make("h4", { text: line.session });
    if (line.gap) {
      return make("p", { className: "gap", text: `${line.gap} message${line.gap === 1 ? "" : "s"} left out` });
    }
    const text = make("div", { className: "text", text: line.text });
    texts.push([text, line.text]);
    const role = { user: "User", assistant: "Assistant", system: "About the user" }[line.role] ?? line.role;
    const who = make("span", { className: "who", text: line.evidence ? `${role} · evidence` : role });
    const className = `message${line.role === "user" ? " user" : ""}${line.evidence ? " evidence" : ""}`;
    return make("div", { className }, who, text);
  }

  function search() {
    const term = byId("term").value.trim();
    const pattern = term && new RegExp(term.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&"), "gi");
    let count = 0;
    for (const [element, text] of texts) {
      const found = term && count < MOST_HITS ? [...text.matchAll(pattern)] : [];
      count += found.length;
      if (!found.length && !element.firstElementChild) continue;
      const parts = [];
      let from = 0;
      for (const { 0: word, index } of found) {
        parts.push(text.slice(from, index), make("mark", { text: word }));
        from = index + word.length;
      }
      element.replaceChildren(...parts, text.slice(from));
    }
    hits = [...byId("history").querySelectorAll("mark")];
    hit = -1;
    if (hits.length) goToHit(1);
    else byId("hits").textContent = term ? "not found" : "";
    byId("before").disabled = byId("after").disabled = !hits.length;
  }

  function goToHit(step) {
    if (!hits.length) return;
    hits[hit]?.classList.remove("now");
    hit = (hit + step + hits.length) % hits.length;
    hits[hit].classList.add("now");
    scrollToHit();
    requestAnimationFrame(scrollToHit); // messages on the way may have got their heights
    byId("hits").textContent = `${hit + 1} of ${hits.length}${hits.length < MOST_HITS ? "" : " or more"}`;
  }

  function scrollToHit() {
    if (!hits[hit]) return;
    // Not scrollIntoView, which would also move the page.
    const box = byId("history");
    const above = hits[hit].getBoundingClientRect().top - box.getBoundingClientRect().top;
    box.scrollTop += above - box.clientHeight / 3;
  }

  // --- files -------------------------------------------------------------------------------------------------------

  function save() {
    const rater = state.rater.trim();
    if (!rater) {
      notice("Write your name first: it tells your answers from those of others.", true);
      byId("rater").focus();
      return;
    }
    const answers = {};
    for (const { id } of items) {
      const given = answerOf(id);
      const kept = ["best", ...checks, "comment"].filter((name) => given[name]);
      if (kept.length) answers[id] = Object.fromEntries(kept.map((name) => [name, given[name]]));
    }
    const file = { format: data.format, version: data.version, sample: data.sample, rater, answers };
    const link = make("a", {
      href: URL.createObjectURL(new Blob([`${JSON.stringify(file, null, 1)}\n`], { type: "application/json" })),
      download: `annotations_${rater.replace(/[^\p{L}\p{N}_-]+/gu, "_")}.json`,
    });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    const open = items.filter(({ id }) => !isDone(id)).length;
    notice(`Saved as ${link.download}. ${open ? `${open} items are not complete yet.` : "Thank you."}`);
  }

  /** Return what is wrong with a file of answers, or nothing. */
  function faultOf(file) {
    if (file?.format !== data.format || Object(file.answers) !== file.answers) return "it holds no answers of a sheet";
    if (file.version !== data.version) return `it has version ${file.version}, this sheet reads ${data.version}`;
    if (file.sample !== data.sample) return `its answers are to sample ${file.sample}, this sheet is ${data.sample}`;
    const known = new Map(items.map((entry) => [entry.id, entry]));
    for (const [id, given] of Object.entries(file.answers)) {
      if (!known.has(id)) return `this sheet has no item ${id}`;
      const letters = [...known.get(id).options.keys()].map(letter);
      const allowed = { best: [...letters, data.unsure], ...Object.fromEntries(checks.map((name) => [name, data.verdicts])) };
      for (const [name, value] of Object.entries(given ?? {})) {
        const fits = name === "comment" ? typeof value === "string" : allowed[name]?.includes(value);
        if (!fits) return `item ${id}: ${name} is ${JSON.stringify(value)}`;
      }
    }
    return "";
  }

  async function load(file) {
    let found;
    try {
      found = JSON.parse(await file.text());
    } catch {
      notice(`${file.name} cannot be read: it is not JSON.`, true);
      return;
    }
    const fault = faultOf(found);
    if (fault) {
      notice(`${file.name} was not loaded: ${fault}.`, true);
      return;
    }
    const own = Object.keys(state.answers).length;
    if (own && !confirm(`Replace the answers to ${own} items in this browser by those of ${file.name}?`)) return;
    state = { rater: String(found.rater ?? ""), at: 0, answers: found.answers };
    keepState();
    showItem();
    notice(`Loaded ${file.name}.`);
  }

  // --- buttons and keys ----------------------------------------------------------------------------------------

  byId("rater").addEventListener("input", (event) => {
    state.rater = event.target.value;
    keepState();
  });
  byId("comment").addEventListener("input", (event) => answer("comment", event.target.value));
  byId("save").addEventListener("click", save);
  byId("load").addEventListener("click", () => byId("file").click());
  byId("file").addEventListener("change", async ({ target }) => {
    if (target.files.length) await load(target.files[0]);
    target.value = "";
  });
  byId("clear").addEventListener("click", () => {
    if (!confirm("Forget all answers in this browser? Saved files stay.")) return;
    state = emptyState();
    keepState();
    showItem();
    notice("All answers are forgotten.");
  });
  byId("keep").addEventListener("click", keepChoice);
  byId("previous").addEventListener("click", () => goTo(state.at - 1));
  byId("next").addEventListener("click", () => goTo(state.at + 1));
  byId("open").addEventListener("click", goToOpen);
  byId("term").addEventListener("input", search);
  byId("term").addEventListener("keydown", (event) => {
    if (event.key === "Enter") goToHit(event.shiftKey ? -1 : 1);
  });
  byId("before").addEventListener("click", () => goToHit(-1));
  byId("after").addEventListener("click", () => goToHit(1));
  // The same sheet in another tab.
  window.addEventListener("storage", ({ key }) => {
    if (key !== STORE) return;
    state = { ...readStore(), at: state.at };
    showItem();
  });

  const isField = (element) => element.matches("textarea, input:not([type=radio], [type=checkbox])");

  /** Do what a key stands for, and say whether it stands for something. */
  function press(key) {
    const given = answerOf(item().id);
    const verdict = data.verdicts.find((value) => value[0] === key);
    if (key === "j") goTo(state.at + 1);
    else if (key === "k") goTo(state.at - 1);
    else if (key === "e") byId("comment").focus();
    else if (key === "/") byId("term").focus();
    else if (key === "Enter" && given.best) goTo(state.at + 1);
    else if (key === "Enter" && given.picked) keepChoice();
    else if (given.best && verdict && openCheck()) choose(openCheck(), verdict);
    else if (!given.best && key === "u") choose("best", data.unsure);
    else if (!given.best && item().options.some((_, index) => letter(index) === key)) choose("best", key);
    else return false;
    return true;
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
    if (isField(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const pressesButton = event.key === "Enter" && event.target.matches("button, summary");
    if (byId("keys").checked && !pressesButton && press(event.key)) event.preventDefault();
  });

  state.at = Number.isInteger(state.at) && state.at >= 0 && state.at < items.length ? state.at : 0;
  byId("help").open = !Object.keys(state.answers).length;
  showItem();
})();

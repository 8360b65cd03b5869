"use strict";

// --- what options assert

const bare = (state) => state.replace(/^(dis)?like: /, "");

// Motives are common words, which a message may hold by chance.
const saysStates = () => question.option_states && question.question_type !== "generalize_to_new_scenarios";

function pattern(words) {
  return words.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

// Where a text says what an option asserts, word for word.
function statesIn(text) {
  if (!saysStates()) return [];
  const owners = new Map();
  question.option_states.forEach((states, i) => {
    for (const state of states) {
      const known = owners.get(bare(state).toLowerCase()) ?? [];
      owners.set(bare(state).toLowerCase(), [...new Set([...known, `(${letter(i)})`])]);
    }
  });
  const longestFirst = [...owners.keys()].filter(Boolean).sort((a, b) => b.length - a.length);
  if (!longestFirst.length) return [];
  const any = new RegExp(`(?<![\\p{L}\\p{N}])(?:${longestFirst.map(pattern).join("|")})(?![\\p{L}\\p{N}])`, "giu");
  return [...text.matchAll(any)].map((match) => {
    const who = owners.get(match[0].toLowerCase()) ?? [];
    return [match.index, match.index + match[0].length, "state", who.length ? `what ${who.join(", ")} speaks of` : ""];
  });
}

const letter = (i) => String.fromCharCode(97 + i);

// What a message of the evidence says, in a few words.
function said(message, i, all) {
  const right = question.option_states?.[question.answer_index] ?? [];
  const session = sessionAt(message);
  const where = session?.[2] || `message ${message}`;
  if (!saysStates()) return where;
  if (question.question_type === "suggest_new_ideas") return statesOf("tried").join(", ") || where;
  if (right.length === all.length) return right[i];
  if (isChain(all) && i === all.length - 1) return right.join(", then ");
  // What came before the last change is known only where there was one thing: a message speaks of others' values too.
  const earlier = statesOf("outdated");
  return isChain(all) && all.length === 2 && earlier.length === 1 ? earlier[0] : where;
}

// What the options of a role assert.
const statesOf = (role) => question.option_states.filter((_, i) => question.option_roles?.[i] === role).flat();

const isChain = (all) => all.length > 1 && question.updates_spanned === all.length - 1;

function drawTimeline(width) {
  const until = Math.max(1, context.letters[end()]);
  const at = (message) => Math.min(1, context.letters[Math.min(message, end())] / until);
  const found = evidence();
  const topics = new Set([question.topic, ...found.map((message) => sessionAt(message)?.[2])]);
  const sessions = context.sessions
    .map((session, i) => ({
      from: at(session[0]),
      to: at(context.sessions[i + 1]?.[0] ?? context.length),
      name: `${sessionName(session)}, from message ${session[0]}`,
      isTopic: session[2] !== "" && topics.has(session[2]),
      message: session[0],
      isFiller: !session[1],
    }))
    .filter(({ isFiller, message }) => !isFiller && message < end());
  const right = question.option_states?.[question.answer_index] ?? [];
  const marks = found.map((message, i) => {
    const text = said(message, i, found);
    const session = sessionAt(message);
    const date = session?.[3] ? `${session[3]}: ` : "";
    const name = `evidence ${i + 1}, message ${message}${session ? `, ${sessionName(session)}` : ""}: ${text}`;
    return { at: at(message), text: `${date}${text}`, name, message, isRight: right.includes(text) };
  });
  if (!marks.length) {
    const share = 1 - (question.distance_to_ref_proportion_in_context ?? 0);
    let message = 0;
    while (message + 1 < end() && context.letters[message + 1] < share * until) message++;
    const text = "what it refers to, about here";
    marks.push({ at: share, text, name: `${text}: message ${message}, as the release states`, message, isAbout: true });
  }
  const held = `${count(sessions.length, "session")}, ${count(found.length, "message")} of evidence`;
  const name = `Timeline of the history up to the question: ${held}`;
  return timeline(width, { sessions, marks, isChain: isChain(found), name }, showMessage);
}

// --- the panel beside the history

function showQuestion() {
  const row = question;
  const source = row.source_question_type === row.question_type ? "" : ` (in the source ${row.source_question_type})`;
  const [blocks, tokens] = [row.distance_to_ref_in_blocks, row.distance_to_ref_in_tokens];
  const share = (100 * row.distance_to_ref_proportion_in_context).toFixed(1);
  const messages = count(row.end_index_in_shared_context, "message");
  const facts = [
    ["type", `${row.question_type}${source}`],
    ["topic", row.topic],
    ["persona", row.persona_id],
    ["history", `${messages}, ${count(row.context_length_in_tokens, "token")}`],
    ["distance", `${count(blocks, "session")}, ${count(tokens, "token")} (${share} % of the history)`],
    ["updates", row.updates_spanned],
    ["telling", row.telling],
    ["stereotype", row.stereotypical],
    ["ground truth", row.groundtruth_info],
    ["id", row.question_id],
  ]
    .filter(([, value]) => value !== undefined && value !== null && value !== "")
    .flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]);
  $("detail").replaceChildren(
    make("p", { class: "asked", dir: "auto" }, row.user_question_or_message),
    make("div", { id: "timeline" }),
    make("ol", { class: "options" }, ...row.options.map(makeOption)),
    ...(row.answers.length ? [make("h3", {}, "Answers"), ...row.answers.map(makeAnswer)] : []),
    make("h3", {}, "Evidence"),
    make("div", { id: "told" }),
    make("h3", {}, "About the question"),
    make("dl", { class: "facts" }, ...facts),
  );
  $("detail").scrollTop = 0;
  if (context) $("told").replaceChildren(...tellEvidence());
  redraw();
}

function redraw() {
  const picture = $("timeline");
  if (picture && context && picture.clientWidth) picture.replaceChildren(drawTimeline(picture.clientWidth));
}

// The same as the picture, in words.
function tellEvidence() {
  const found = evidence();
  const lines = found.map((message, i) => {
    const session = sessionAt(message);
    const jump = make("button", { type: "button" }, `★ message ${message}`);
    jump.addEventListener("click", () => showMessage(message));
    const telling = tellingOf(message);
    const told = `${said(message, i, found)}${telling && ` (${telling})`}`;
    return make("li", {}, jump, ` ${session ? sessionName(session) : ""}: ${told}`);
  });
  return lines.length ? [make("ol", {}, ...lines)] : ["none is recorded in this dataset"];
}

// How a message of the evidence tells its events, empty where that is not known.
function tellingOf(message) {
  const own = (question.evidence_tellings ?? []).filter((_, i) => question.evidence_message_indices[i] === message);
  return [...new Set(own)].join(", ");
}

function makeOption(text, i) {
  const isRight = i === question.answer_index;
  const states = question.option_states?.[i];
  const node = make("li", { class: isRight ? "option right" : "option" });
  const notes = [];
  if (isRight) notes.push(make("b", { class: "gold" }, "✓ right"));
  if (question.option_roles) notes.push(make("span", { class: "tag" }, question.option_roles[i]));
  if (question.option_stereotypical?.[i]) notes.push(make("span", { class: "tag" }, "follows a stereotype"));
  if (states) notes.push(`asserts ${states.join(", then ") || "nothing"}`);
  const takers = index.splits[split].runs.filter((_, of) => question.answers[of]?.[0][0] === letter(i));
  const names = takers.map(({ label }) => label).join("; ");
  if (names) notes.push(make("span", { class: "takers" }, `→ chosen by ${names}`));
  node.append(make("b", { class: "letter" }, `(${letter(i)})`), make("span", { class: "text", dir: "auto" }, text));
  if (notes.length) node.append(make("p", { class: "notes" }, ...notes.flatMap((note) => [note, " "])));
  return node;
}

function makeAnswer(given, of) {
  const { label, scores, notes } = index.splits[split].runs[of];
  const node = make("div", { class: "answer" });
  const head = make("p", {}, make("b", { class: "model" }, [label, ...notes].join(", ")));
  node.append(head);
  if (!given) {
    node.append(make("p", {}, "– not asked"));
    return node;
  }
  const [letters, credits, skipped, truncated, response, logprobs] = given;
  if (skipped) node.append(make("p", {}, "» skipped: longer than the model's window"));
  else {
    scores.forEach((score, i) => {
      const found = verdict({ answers: [[[letters[i]], [credits[i]], false]] }, 0);
      const none = letters[i] === "" ? WORDS.none : "the option is not recorded";
      const chosen = letters[i] ? `(${letters[i]})` : none;
      const credit = found === "tied" ? ` (credit ${credits[i].toFixed(2)})` : "";
      const sign = make("span", { class: `sign ${found}` }, `${SIGNS[found]} ${found === "none" ? "" : found}`);
      node.append(make("p", {}, sign, ` ${chosen}${credit}, by ${score}`));
    });
  }
  if (truncated) node.append(make("p", {}, "the model saw a cut history"));
  if (logprobs) {
    const values = logprobs.map((value, i) => `(${letter(i)}) ${value <= -1e9 ? "−∞" : value.toFixed(2)}`);
    node.append(make("p", { class: "small" }, `log-likelihoods: ${values.join("  ")}`));
  }
  if (response !== null) {
    const whole = make("div", { class: "text response", dir: "auto" }, response || "(empty)");
    node.append(make("details", {}, make("summary", {}, "what it wrote"), whole));
  }
  return node;
}

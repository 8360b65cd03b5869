"use strict";

// The picture of where the evidence of a question lies in its history, and what was said there.

const SVG = "http://www.w3.org/2000/svg";
const LANE = 34;
const HEAD = 30;
const LETTER = 6.8; // width of a letter, about

function draw(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// A shape that can be clicked and reached by the keyboard.
function button(label, act, ...shapes) {
  const group = draw("g", { role: "button", tabindex: "0", "aria-label": label, class: "mark" }, ...shapes);
  group.append(draw("title", {}, label));
  group.addEventListener("click", act);
  group.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    act();
  });
  return group;
}

// `sessions`: {from, to, name, isTopic, message}; `marks`: {at, text, name, message, isRight, isAbout}; places go from
// 0, the start of the history, to 1, the question. `isChain`: each mark replaces what the one before it said.
function timeline(width, { sessions, marks, isChain, name }, jump) {
  const height = HEAD + LANE * Math.max(1, marks.length) + 22;
  const left = 8;
  const right = width - 8;
  const x = (place) => left + place * (right - left);
  const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": name });
  svg.append(draw("path", { class: "axis", d: `M${left} ${HEAD - 12}H${right}` }));
  for (const session of sessions) {
    const wide = Math.max(2, x(session.to) - x(session.from) - 1);
    const shape = { x: x(session.from), y: session.isTopic ? HEAD - 22 : HEAD - 17, width: wide };
    const rect = draw("rect", { ...shape, height: session.isTopic ? 20 : 10, rx: 2 });
    const group = button(session.name, () => jump(session.message), rect);
    group.classList.add("session", ...(session.isTopic ? ["topic"] : []));
    svg.append(group);
  }
  const bottom = height - 20;
  svg.append(draw("path", { class: "question", d: `M${right} 4V${bottom}` }));
  marks.forEach((mark, i) => {
    const y = HEAD + LANE * i + 25;
    const from = x(mark.at);
    const to = isChain && i + 1 < marks.length ? x(marks[i + 1].at) : right;
    const line = draw("path", { class: mark.isAbout ? "span about" : "span", d: `M${from} ${y}H${to}` });
    const diamond = `M${from} ${y - 7}L${from + 7} ${y}L${from} ${y + 7}L${from - 7} ${y}Z`;
    const shape =
      isChain && i
        ? draw("path", { class: "shape", d: diamond })
        : draw("circle", { class: "shape", cx: from, cy: y, r: 6.5 });
    // Beyond the mark if there is room, else before it, else where there is more.
    const [after, before] = [right - from, from - left].map((wide) => Math.floor(wide / LETTER));
    const isEnd = mark.text.length > after && before > after;
    const room = isEnd ? before : after;
    const text = mark.text.length > room ? `${mark.text.slice(0, Math.max(1, room - 1))}…` : mark.text;
    const place = { x: isEnd ? from + 7 : Math.max(left, from - 7), y: y - 11, "text-anchor": isEnd ? "end" : "start" };
    // What can be clicked is the whole of it, gaps included.
    const start = isEnd ? Math.max(left, from - LETTER * text.length) : from - 8;
    const ground = { x: start, y: y - 22, width: right - start, height: LANE - 2 };
    const parts = [draw("rect", { class: "ground", ...ground }), line, shape, draw("text", place, text)];
    const group = button(mark.name, () => jump(mark.message), ...parts);
    if (mark.isRight) group.classList.add("right");
    if (mark.isAbout) group.classList.add("about");
    svg.append(group);
  });
  svg.append(draw("text", { x: left, y: height - 5, class: "small" }, "start of the history"));
  svg.append(draw("text", { x: right, y: height - 5, class: "small", "text-anchor": "end" }, "question"));
  return svg;
}

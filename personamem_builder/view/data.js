"use strict";

// --- data: every file under data/ is a script that calls `personamem(name, value)`

const waiting = new Map();

function personamem(name, value) {
  waiting.get(name)?.(value);
}

function load(name) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    const done = (end, value) => {
      waiting.delete(name);
      script.remove();
      end(value);
    };
    waiting.set(name, (value) => done(resolve, shown(value)));
    script.addEventListener("error", () => done(reject, new Error(`${name} cannot be loaded`)));
    script.addEventListener("load", () => waiting.has(name) && done(reject, new Error(`${name} is damaged`)));
    script.src = name;
    document.head.append(script);
  });
}

// Controls, and characters that turn the direction of what follows, are replaced wherever they stand.
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

function shown(value) {
  if (typeof value === "string") return value.replace(/\r\n?/g, "\n").replace(CONTROLS, "\ufffd");
  if (Array.isArray(value)) return value.map(shown);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, shown(entry)]));
}

// --- elements

const $ = (id) => document.getElementById(id);

// Text is never markup: what is appended as a string becomes a text node.
function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const number = (value) => value.toLocaleString("en");
const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;

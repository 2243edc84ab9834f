// Helpers of the other files. The page is built from text nodes and attributes only: no text of the data is ever parsed
// as HTML.
const SVG = "http://www.w3.org/2000/svg";
const VIEW = 1000; // units across a panel
const root = document.documentElement;

const by = (id) => document.getElementById(id);

function fill(element, attributes, text = null) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return element;
}

const make = (name, attributes = {}, text = null) => fill(document.createElement(name), attributes, text);
const draw = (name, attributes = {}, text = null) => fill(document.createElementNS(SVG, name), attributes, text);

const fixed = (number) => number.toFixed(1);
const sign = (value) => (value > 0 ? "plus" : value < 0 ? "minus" : "");

function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e-3 && size < 1e5 ? value.toPrecision(3) : value.toExponential(2);
  return (value > 0 ? "+" : "") + text.replaceAll("-", "\u2212");
}

// A number of things in words: "1 edge", "3 edges".
const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;

// Isolate a name within a sentence, so that a right-to-left name does not change the direction of the rest of the line.
const isolate = (name) => `\u2068${name}\u2069`;

// What can be chosen is a node, an edge, a self-loop ("loop"), a fold or a feature, each as {kind: place}.
const kindOf = (what) => Object.keys(what)[0];
const same = (a, b) => Boolean(a && b) && kindOf(a) === kindOf(b) && a[kindOf(a)] === b[kindOf(b)];

// What is to be said beside a panel's scores of a kind ("edges" or "features"), for example that they are not measured.
const noted = (panel, kind) => (panel.notes?.[kind] ? ` (${panel.notes[kind]})` : "");

// Show the result of an action of the reader. An error remains visible until the next action.
function say(text, wrong = false) {
  by("status").textContent = wrong ? "" : text;
  by("wrong").textContent = wrong ? text : "";
}

// Show a text about the element under the pointer. It does not replace an error.
function hint(text) {
  by("status").textContent = text;
}

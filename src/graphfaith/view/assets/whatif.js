// What if: the reader takes edges, nodes and features away and puts them back, and sees what is foretold. Of one thing by
// itself the page has the answer of p, the function that was fitted. Of several, the scores foretell the sum of what each
// alone does, and pairs add what two do only together; beside them stands how much they miss.
const gone = new Map(); // what is taken away, by its key, in the order in which it went
const past = []; // earlier contents of `gone`, for undo
let taking = false; // whether a click takes away instead of choosing
let truth = null; // what the server says about exactly this; only the live view has it
let onGone = null; // function that asks the server; only the live view sets it

const keyOf = (what) => `${kindOf(what)} ${what[kindOf(what)]}`;
const UNITS = {
  logit: "score of the class", probability: "probability", "log-probability": "logarithm of the probability", output: "output",
};

function nameOf(what) {
  if (what.node !== undefined) return isolate(data.names[what.node]);
  if (what.feature !== undefined) return isolate(data.features[what.feature].name);
  if (what.loop !== undefined) return `${isolate(data.names[what.loop])} (self-loop)`;
  return data.edges[what.edge].map((i) => isolate(data.names[i])).join(data.directed ? " \u2192 " : " \u2013 ");
}

// A large page has only the strongest nodes and links, and says so.
const isCut = () => data.cut;
const allLinks = () => (isCut() && !onGone ? "all links shown here of" : "all links of");
const nounOf = (what) => ({ node: allLinks(), edge: "the link", loop: "the link", feature: "the feature" })[kindOf(what)];

function hasNumber(what, panel) {
  if (!panel.what_if) return false;
  if (what.feature !== undefined) return panel.what_if.features.some(([, column]) => column === data.features[what.feature].column);
  return panel.edge_scale > 0; // Without it, the method scores no edges.
}

function canTake(what) {
  if (!what || what.fold !== undefined) return false;
  return Boolean(onGone && what.feature === undefined) || data.panels.some((panel) => hasNumber(what, panel));
}

function goneUnits() {
  // A node goes with all its edges. An edge that is gone already does not go twice.
  const units = { edges: new Set(), loops: new Set(), nodes: new Set(), columns: new Set() };
  for (const what of gone.values()) {
    if (what.edge !== undefined) units.edges.add(what.edge);
    if (what.loop !== undefined) units.loops.add(what.loop);
    if (what.feature !== undefined) units.columns.add(data.features[what.feature].column);
    if (what.node === undefined) continue;
    units.nodes.add(what.node);
    data.edges.forEach((ends, i) => { if (ends.includes(what.node)) units.edges.add(i); });
  }
  return units;
}

function foretell(panel, units) {
  // Return by how much F would change, or null if this explanation has no number for something that is gone. It is what
  // explanation.what_if(..., by="pairs") returns, or by="scores" if there are no pairs.
  const table = panel.what_if;
  if (!table || (units.edges.size + units.loops.size && !panel.edge_scale)) return null;
  const features = table.features.filter(([, column]) => units.columns.has(column));
  if ([...units.columns].some((wanted) => !features.some(([, column]) => column === wanted))) return null;
  const isGone = (thing) => (thing.edge !== undefined ? units.edges.has(thing.edge)
    : thing.loop !== undefined ? units.loops.has(thing.loop)
      : thing.feature !== undefined && features.some(([place, column]) => place === thing.feature[0] && column === thing.feature[1]));
  const parts = [
    ...[...units.edges].map((i) => table.edges[i]), ...[...units.loops].map((i) => table.loops[i]),
    ...features.map(([, , change]) => change),
    ...table.together.filter(([first, second]) => isGone(first) && isGone(second)).map(([, , more]) => more),
  ];
  return parts.reduce((sum, part) => sum + part, 0);
}

// Live, the model loses all links of a node, and the scores know only those that the page has.
const isPartial = (units) => Boolean(onGone) && units.nodes.size > 0 && isCut();

function askP(panel, i, units) {
  // Return what p foretells: live what the server says, else what the page has of one single thing. It is what
  // explanation.what_if(...) returns. Something that F does not read changes nothing.
  if (truth) return truth.panels[i].change === null ? null : truth.panels[i];
  const table = panel.what_if?.p;
  if (!table || gone.size !== 1 || isPartial(units)) return null;
  const [what] = gone.values();
  const kind = kindOf(what);
  if (kind !== "feature") {
    const [change, stderr] = table[`${kind}s`][what[kind]] ?? [0, 0];
    return { change, stderr };
  }
  const found = table.features.find(([column]) => column === data.features[what.feature].column);
  return found ? { change: found[1], stderr: found[2] } : null;
}

function missOf(panel, key, units) {
  // Return how much of the model's reaction a way to foretell leaves unexplained, as the bar of trust has it.
  const kinds = [...(units.edges.size + units.loops.size ? ["edges"] : []), ...(units.columns.size ? ["features"] : [])];
  const notes = [...new Set(kinds.map((kind) => panel.notes[kind]).filter(Boolean))];
  if (notes.length || !panel.trust) return notes.join("; ") || "not measured";
  // Where there is no number of the whole, the scores are the whole.
  const row = panel.trust.rows.find((one) => one.key === key) ?? panel.trust.rows[0];
  return row?.relative == null ? "not measured" : `misses ${row.text} of the model\u2019s reaction`;
}

function foretold() {
  // Return a row for each way to foretell: the p of every panel where it is known, and its scores, with pairs where there
  // are some.
  const units = goneUnits();
  return data.panels.flatMap((panel, i) => {
    const name = (way) => (data.panels.length > 1 ? `${panel.title}, ${way}` : way);
    const p = askP(panel, i, units);
    const pairs = Boolean(panel.what_if?.pairs);
    const way = `${pairs ? "scores and pairs" : "scores"}${isPartial(units) ? " of the links shown" : ""}`;
    return [
      { name: name("p, the model of the explanation"), key: "p", change: p?.change ?? null, stderr: p?.stderr, miss: missOf(panel, "whole", units) },
      { name: name(way), key: "scores", change: foretell(panel, units), miss: missOf(panel, pairs ? "pairs" : "scores", units) },
    ].filter((row) => row.change !== null);
  });
}

// The box -----------------------------------------------------------------------------------------------------------

function drawChange(row, low, high) {
  // Draw a change as a bar from "as it is". A line across all bars is what the model really does.
  const reach = (value) => 100 * (value - low) / (high - low || 1);
  const svg = draw("svg", { class: "track", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" });
  const [from, to] = [reach(Math.min(0, row.change)), reach(Math.max(0, row.change))];
  svg.append(draw("rect", { class: `change ${sign(row.change)}`, x: fixed(from), y: 1, width: fixed(Math.max(0.4, to - from)), height: 8 }));
  if (row.stderr) {
    const ends = [row.change - row.stderr, row.change + row.stderr].map((value) => fixed(Math.min(100, Math.max(0, reach(value)))));
    svg.append(draw("path", { class: "whisker", d: `M${ends[0]} 5H${ends[1]}` }));
  }
  svg.append(draw("line", { class: "zero", x1: fixed(reach(0)), x2: fixed(reach(0)), y1: 0, y2: 10 }));
  if (truth?.actual != null) {
    svg.append(draw("line", { class: "truth", x1: fixed(reach(truth.actual)), x2: fixed(reach(truth.actual)), y1: 0, y2: 10 }));
  }
  return svg;
}

function drawForetold() {
  const rows = gone.size ? foretold() : [];
  if (truth?.actual != null) rows.push({ name: "the model itself", key: "model", change: truth.actual });
  const values = [0, ...rows.flatMap((row) => [row.change - (row.stderr ?? 0), row.change + (row.stderr ?? 0)])];
  const pad = 0.04 * (Math.max(...values) - Math.min(...values) || 1);
  const [low, high] = [Math.min(...values) - pad, Math.max(...values) + pad];
  by("foretold").replaceChildren(...rows.flatMap((row) => {
    const bar = make("dd", { class: "holds" });
    bar.append(drawChange(row, low, high));
    const error = row.stderr ? ` \u00b1 ${row.stderr.toPrecision(2)}` : "";
    const number = make("dd", { class: "number" });
    number.append(make("span", { "data-row": row.key }, `${short(row.change)}${error}`));
    if (row.miss) number.append(make("span", { class: "faint" }, ` (${row.miss})`));
    return [make("dt", row.key === "model" ? { class: "model" } : {}, row.name), bar, number];
  }));
  by("foretold").toggleAttribute("hidden", rows.length === 0);
  return rows;
}

function answerWords(rows) {
  if (!gone.size) return "";
  const table = data.panels.find((panel) => panel.what_if)?.what_if;
  const unit = UNITS[table?.unit] ?? "output";
  // A feature without a name is called "feature 5" already.
  const noun = (what) => (/^feature \d+$/.test(data.features[what.feature]?.name ?? "") ? "" : `${nounOf(what)} `);
  const names = [...gone.values()].map((what) => `${noun(what)}${nameOf(what)}`);
  const without = `Without ${names.join(", ")}`;
  const first = rows.find((row) => row.key === "p") ?? rows[0]; // What foretells best speaks.
  if (!first) return `${without}: these methods have no number for that.`;
  const from = table?.base == null ? "" : ` from ${short(table.base).replace(/^\+/, "")} to ${short(table.base + first.change).replace(/^\+/, "")}`;
  const who = first.key === "p" ? "" : ` by ${first.name}, ${first.miss.startsWith("misses") ? "which " : ""}${first.miss},`;
  const said = first.key === "model" ? "" : `the ${unit} is foretold${who} to change by ${short(first.change)}${from}`;
  if (truth?.actual == null) return `${without}, ${said}.`;
  const answer = truth.flips ? `, and its answer turns from ${isolate(truth.before)} to ${isolate(truth.after)}` : "";
  const silent = truth.silenced ? " (a link that is gone is silent here, but still counted)" : "";
  return `${without}, ${said ? `${said}; ` : ""}the model itself changes by ${short(truth.actual)}${answer}${silent}.`;
}

function showGone() {
  const units = goneUnits();
  // Thousands of edges are gone through only if something is gone, or was.
  if (gone.size || by("panels").querySelector(".gone, .unlooped")) for (const one of panels) {
    one.edges.forEach((edge, i) => edge.group.classList.toggle("gone", units.edges.has(i)));
    one.nodes.forEach((node, i) => {
      node.classList.toggle("gone", units.nodes.has(i));
      node.classList.toggle("unlooped", units.loops.has(i));
    });
  }
  for (const table of tables) table.strike(gone);
  by("gone").replaceChildren(...[...gone.values()].map((what) => {
    const item = make("li");
    const button = make("button", { type: "button", "aria-label": `Put ${nameOf(what)} back` }, nameOf(what));
    button.addEventListener("click", () => { toggleGone(what); by("taking").focus(); });
    item.append(button);
    return item;
  }));
  by("undo").disabled = past.length === 0;
  by("put-back").disabled = gone.size === 0;
  by("answer").textContent = answerWords(drawForetold());
  by("answer").classList.toggle("flips", truth !== null && truth.flips);
  share();
  showTake();
}

function showTake() {
  // The button beside what is said about the chosen mark.
  const what = state.chosen;
  by("take").toggleAttribute("hidden", !canTake(what));
  if (what && canTake(what)) by("take").textContent = gone.has(keyOf(what)) ? "Put it back" : "Take it away";
}

function setGone(list, remember = true) {
  if (remember) past.push([...gone.values()]);
  gone.clear();
  for (const what of list) gone.set(keyOf(what), what);
  truth = null;
  by("flipped").textContent = "";
  showGone();
  keepState();
  if (onGone) onGone();
}

function toggleGone(what) {
  if (!canTake(what)) { say("There is no number for taking this away."); return; }
  const left = [...gone.values()].filter((other) => !same(other, what));
  setGone(left.length < gone.size ? left : [...left, what]);
  say(by("answer").textContent || `${nameOf(what)} is back.`);
}

function undo() {
  if (!past.length) return;
  setGone(past.pop(), false);
  say(by("answer").textContent || "Everything is back.");
}

function resetGone() {
  gone.clear();
  past.length = 0;
  truth = null;
}

function toggleTaking() {
  taking = !taking;
  by("taking").setAttribute("aria-pressed", String(taking));
  by("panels").classList.toggle("taking", taking);
  say(taking ? "Click a link or a circle to take it away, and again to put it back." : "Clicks choose again.");
}

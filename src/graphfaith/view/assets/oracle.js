// The oracle: what p and the model itself say about what is gone, the smallest change that flips the answer, and a tally
// of what was foretold against what was true.
const PAUSE = 120; // milliseconds without a change before the server is asked
const LISTED = 8; // tries that the tally lists
const tries = []; // what was tried in this visit: its name, the rows that foretold, and the model's change
let consulted = 0;
let asking = null; // the AbortController of the current request
let flipping = null; // the AbortController of a search for the smallest change
let pause = null;

function abandon() {
  // Let go of everything that was asked about an answer that the reader has left.
  clearTimeout(pause);
  consulted += 1;
  asking?.abort();
  flipping?.abort();
  by("what-if").removeAttribute("aria-busy");
}

function removalFields() {
  // Return what is gone as the fields of a request, by ids. A feature is gone at every node that has a number for it. The
  // server knows all links of a node, of which the page may have only some, and the links that a line stands for.
  const units = goneUnits();
  const nodes = [...units.nodes].map((i) => data.ids[i]);
  const loops = [...units.loops].map((i) => `${data.ids[i]}-${data.ids[i]}`);
  const alone = [...gone.values()].filter((what) => what.edge !== undefined).map((what) => what.edge);
  const edges = alone.map((i) => data.edges[i].map((end) => data.ids[end]).join("-")).concat(loops);
  const features = [...units.columns].flatMap((wanted) => {
    const places = data.panels.flatMap((panel) => (panel.what_if?.features ?? []).filter(([, column]) => column === wanted));
    return [...new Set(places.map(([place]) => `${data.ids[place]}-${wanted}`))];
  });
  const fields = Object.entries({ nodes, edges, features }).filter(([, ids]) => ids.length).map(([name, ids]) => [name, ids.join(",")]);
  return Object.fromEntries([...fields, ...(edges.length ? [["directed", data.directed ? "yes" : "no"]] : [])]);
}

async function consult() {
  const turn = ++consulted;
  const fields = removalFields();
  asking = new AbortController();
  by("what-if").setAttribute("aria-busy", "true");
  try {
    const query = new URLSearchParams([...shown, ...Object.entries(fields)]);
    const found = await (await fetched(`/api/what-if?${query}`, asking.signal)).json();
    if (turn !== consulted) return; // The reader has taken something else away meanwhile.
    truth = found;
    showGone();
    note(query.toString());
    say(by("answer").textContent);
  } catch (error) {
    if (turn === consulted && !isAbandoned(error)) say(error.message, true);
  } finally {
    if (turn === consulted) by("what-if").removeAttribute("aria-busy");
  }
}

onGone = () => {
  clearTimeout(pause);
  consulted += 1;
  asking?.abort(); // The server need not answer what is not asked any more.
  by("what-if").removeAttribute("aria-busy");
  if (gone.size && shown) pause = setTimeout(consult, PAUSE);
};

// The tally ---------------------------------------------------------------------------------------------------------

function note(key) {
  // Count a try once, however often the reader comes back to it.
  if (tries.some((one) => one.key === key)) return;
  const name = [...gone.values()].map(nameOf).join(", ");
  tries.push({ key, name: `${isolate(data.text)} without ${name}`, rows: foretold(), actual: truth.actual });
  drawTally();
}

function tableOf(heads, rows) {
  const table = make("table");
  const [top, body, line] = [make("thead"), make("tbody"), make("tr")];
  line.append(...heads.map((head) => make("th", { scope: "col" }, head)));
  top.append(line);
  body.append(...rows.map(([name, ...cells]) => {
    const row = make("tr");
    row.append(make("th", { scope: "row" }, name), ...cells.map((cell) => make("td", {}, cell)));
    return row;
  }));
  table.append(top, body);
  return table;
}

function drawTally() {
  const names = [...new Set(tries.flatMap((one) => one.rows.map((row) => row.name)))];
  const sums = names.map((name) => {
    const own = tries.flatMap(({ rows, actual }) => rows.filter((row) => row.name === name).map((row) => [row.change, actual]));
    const off = own.reduce((sum, [change, actual]) => sum + Math.abs(change - actual), 0) / own.length;
    const right = own.filter(([change, actual]) => sign(change) === sign(actual)).length;
    return [name, String(own.length), short(off).replace(/^\+/, ""), `${right} of ${own.length}`];
  });
  const last = tries.slice(-LISTED).reverse().map(({ name, rows, actual }) => [
    name, ...names.map((wanted) => rows.filter((row) => row.name === wanted).map((row) => short(row.change)).join("")),
    short(actual),
  ]);
  const title = make("h3", { id: "tally-title" }, `Foretold against true, ${tries.length === 1 ? "one try" : `${tries.length} tries`} so far`);
  const holder = make("div", { class: "holder", tabindex: "0", role: "region", "aria-labelledby": "tally-title" });
  holder.append(
    tableOf(["Foretold by", "Tries", "Off by, on average", "Right direction"], sums),
    tableOf(["Last tries", ...names, "The model"], last),
  );
  by("tally").replaceChildren(title, holder);
  by("tally").removeAttribute("hidden");
}

// The smallest change ------------------------------------------------------------------------------------------------

async function flip() {
  const turn = turns;
  flipping = new AbortController();
  by("flip").disabled = true;
  say("Looking for the smallest change that flips the answer \u2026");
  try {
    const found = await (await fetched(`/api/flip?${shown}`, flipping.signal)).json();
    if (turn !== turns) return;
    if (!found.found) { by("flipped").textContent = sentence(found.text); say(""); return; }
    const place = new Map(data.edges.flatMap(([a, b], i) => {
      const [s, t] = [data.ids[a], data.ids[b]];
      return data.directed ? [[`${s}-${t}`, i]] : [[`${s}-${t}`, i], [`${t}-${s}`, i]];
    }));
    const edges = found.edges.map((ends) => place.get(ends.join("-")));
    if (edges.includes(undefined)) { say(`${found.text}; not all of it is on this page.`); return; }
    setGone(edges.map((edge) => ({ edge })));
    edges.forEach((edge) => openFor({ edge }));
    by("flipped").textContent = `${found.text}.`;
  } catch (error) {
    if (turn === turns && !isAbandoned(error)) say(error.message, true);
  } finally {
    by("flip").disabled = false;
  }
}

by("flip").toggleAttribute("hidden", !live.flips); // A number has no class that could turn.
by("flip").addEventListener("click", flip);

// The live view asks the server to explain what the reader selects. The fragment of the address (after #) is the
// question and what the reader has done with its answer, so that Back, Forward and bookmarks work.
const { live } = readData();
const token = new URLSearchParams(location.search).get("token") ?? "";
const GONE = "The server does not answer. Is graphfaith view still running?";
let turns = 0;
let before = null; // the AbortController of the current request
let filled = { id: null, text: null }; // the text of the field if the page filled it in, and its id
let shown = null; // the question whose answer the page shows
let chosenId = null;

// What the page itself has let go of is no fault of the server.
const isAbandoned = (error) => error.name === "AbortError";

async function fetched(path, signal = null) {
  const headers = { "X-Graphfaith-Token": token };
  const answer = await fetch(path, { headers, signal }).catch((error) => { throw isAbandoned(error) ? error : new Error(GONE); });
  if (answer.ok) return answer;
  const words = await answer.json().then((body) => body.error, () => `The server said ${answer.status}.`);
  throw new Error(words);
}

function methods(query) {
  for (const box of by("methods").querySelectorAll("input:checked")) query.append("method", box.value);
  return query;
}

function question() {
  // A text that the page filled in belongs to a known id. A text that the reader typed may be a name or an id.
  const text = by("index").value;
  const what = text === filled.text ? { index: filled.id } : { name: text };
  return methods(new URLSearchParams({ ...what, near: by("near").value }));
}

function fillIn(query) {
  filled = { id: query.get("index"), text: query.get("index") ?? query.get("name") ?? "" };
  if (filled.id === null) filled = { id: null, text: null };
  by("index").value = query.get("index") ?? query.get("name") ?? "";
  by("near").value = query.get("near") ?? "";
  sayNear();
  const chosen = query.getAll("method");
  for (const box of by("methods").querySelectorAll("input")) box.checked = chosen.includes(box.value);
}

function sayNear() {
  // What the name of a neighbourhood means; of one that the reader has typed, the server says it with its answer.
  const name = by("near").value.trim();
  const known = Object.hasOwn(live.neighborhoods, name) && live.neighborhoods[name];
  by("near-said").textContent = known ? `What the model does ${known}.` : "";
}

function bare(query) {
  // Return the question alone, without what the reader has done with its answer.
  const asked = new URLSearchParams(query);
  STATE_FIELDS.forEach((name) => asked.delete(name));
  return asked;
}

function go(query) {
  // What is gone stays gone if the same thing is explained by other methods.
  const kept = stateFields().get("gone");
  if (shown && kept && query.get("index") === shown.get("index")) query.set("gone", kept);
  const hash = `#${query}`;
  if (hash === location.hash) ask(query);
  else location.hash = hash; // The event "hashchange" then asks, and the browser's history has an entry for it.
}

function focused() {
  // Remember the focus, and return a function that restores it after all panels were replaced.
  const panel = panels.findIndex((one) => one.svg === document.activeElement);
  const back = document.activeElement === by("chosen-one") ? by("index") : null;
  return () => { if (panel >= 0) panels[Math.min(panel, panels.length - 1)].svg.focus(); else back?.focus(); };
}

async function ask(query) {
  const turn = ++turns;
  before?.abort(); // The server stops computing an answer that is not needed any more.
  abandon();
  before = new AbortController();
  const started = performance.now();
  const tell = () => {
    const seconds = Math.floor((performance.now() - started) / 1000);
    const what = isolate(query.get("index") ?? query.get("name") ?? "");
    say(`Explaining ${live.level} ${what}${seconds ? `: ${seconds} s` : ""} \u2026`);
  };
  const clock = setInterval(() => { if (turn === turns) tell(); }, 1000);
  document.querySelector("main").setAttribute("aria-busy", "true");
  tell();
  try {
    const answer = await (await fetched(`/api/explain?${bare(query)}`, before.signal)).json();
    if (turn !== turns) return; // The reader has asked another question meanwhile.
    const comeBack = focused();
    shown = bare(query);
    shown.delete("name");
    shown.set("index", answer.index);
    show(answer, query);
    comeBack();
    history.replaceState(null, "", `#${new URLSearchParams([...shown, ...stateFields()])}`);
    filled = { id: answer.index, text: answer.text };
    by("index").value = answer.text;
    by("about").textContent = [answer.about, ...answer.notes].join(". ");
    const taken = Math.max(0.1, (performance.now() - started) / 1000).toFixed(1);
    const more = walk ? " Double-click a node, or choose it and press Enter, to have it explained." : "";
    say(`Explained in ${taken} s.${more}`);
  } catch (error) {
    if (turn === turns && !isAbandoned(error)) say(error.message, true);
  } finally {
    clearInterval(clock);
    if (turn === turns) document.querySelector("main").removeAttribute("aria-busy");
    for (const id of ["save-json", "save-svg"]) by(id).disabled = shown === null;
  }
}

async function save(kind) {
  try {
    const text = await (await fetched(`/api/explanation.${kind}?${shown}`)).text();
    const type = { json: "application/json", svg: "image/svg+xml", html: "text/html" }[kind];
    download(kind === "html" ? withState(text) : text, type, `${live.level}-${data.index}.${kind}`);
  } catch (error) { say(error.message, true); }
}

let searched = 0;
async function suggest(text) {
  const turn = ++searched;
  const found = await fetched(`/api/find?${new URLSearchParams({ text })}`).then((answer) => answer.json(), () => []);
  if (turn !== searched) return;
  by("found").replaceChildren(...found.map((node) => {
    const option = make("option", { value: node.text });
    option.textContent = `${node.id}: ${node.name}`;
    return option;
  }));
}

by("level").textContent = live.level[0].toUpperCase() + live.level.slice(1);
by("nears").replaceChildren(...Object.entries(live.neighborhoods).map(([near, text]) => make("option", { value: near }, text)));
by("near").addEventListener("input", sayNear);
for (const [name, title] of Object.entries(live.methods)) {
  const label = make("label");
  label.append(make("input", { type: "checkbox", value: name }), title);
  by("methods").append(label);
}
by("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const query = question();
  if (query.has("method")) go(query);
  else say("Choose at least one method.", true);
});
by("index").addEventListener("input", (event) => suggest(event.target.value));
by("save-json").addEventListener("click", () => save("json"));
by("save-svg").addEventListener("click", () => save("svg"));
by("keep").addEventListener("click", () => save("html"));
by("chosen-one").addEventListener("click", () => walk(chosenId));
if (live.level === "node") {
  walk = (id) => go(methods(new URLSearchParams({ index: id, near: by("near").value })));
  onChoose = (id) => { chosenId = id; by("chosen-one").toggleAttribute("hidden", id === null); };
}

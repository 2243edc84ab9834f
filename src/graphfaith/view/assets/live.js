// The live view: asks the server for what the reader picks. The address's #part is the question, so that Back, Forward
// and a bookmark work.
const live = given.live;
const token = new URLSearchParams(location.search).get("token") ?? "";
const GONE = "The server does not answer. Is graphfaith view still running?";
let asked = 0;
let shown = null; // the question that the page shows
let chosenId = null;

async function fetched(path) {
  const answer = await fetch(path, { headers: { "X-Graphfaith-Token": token } }).catch(() => { throw new Error(GONE); });
  if (answer.ok) return answer;
  const words = await answer.json().then((body) => body.error, () => `The server said ${answer.status}.`);
  throw new Error(words);
}

function question() {
  const query = new URLSearchParams({ index: by("index").value, near: by("near").value });
  for (const box of by("methods").querySelectorAll("input:checked")) query.append("method", box.value);
  return query;
}

function fillIn(query) {
  by("index").value = query.get("index") ?? "";
  by("near").value = query.get("near") ?? "";
  const methods = query.getAll("method");
  for (const box of by("methods").querySelectorAll("input")) box.checked = methods.includes(box.value);
}

function go(query) {
  const hash = `#${query}`;
  if (hash === location.hash) ask(query);
  else location.hash = hash; // which asks, and can be gone back to
}

async function ask(query) {
  const turn = ++asked;
  const started = performance.now();
  const tell = () => {
    const seconds = Math.floor((performance.now() - started) / 1000);
    say(`Explaining ${live.level} ${isolate(query.get("index"))}${seconds ? `: ${seconds} s` : ""} \u2026`);
  };
  const clock = setInterval(() => { if (turn === asked) tell(); }, 1000);
  document.querySelector("main").setAttribute("aria-busy", "true");
  tell();
  try {
    const answer = await (await fetched(`/api/explain?${query}`)).json();
    if (turn !== asked) return; // the reader has asked for something else meanwhile
    show(answer);
    shown = query;
    by("about").textContent = [answer.about, ...answer.notes].join(". ");
    const taken = Math.max(0.1, (performance.now() - started) / 1000).toFixed(1);
    const more = walk ? " Double-click a node, or choose it and press Enter, to have it explained." : "";
    say(`Explained in ${taken} s.${more}`);
  } catch (error) {
    if (turn === asked) say(error.message, true);
  } finally {
    clearInterval(clock);
    if (turn === asked) document.querySelector("main").removeAttribute("aria-busy");
    for (const id of ["save-json", "save-svg"]) by(id).disabled = shown === null;
  }
}

async function save(kind) {
  try {
    const file = await (await fetched(`/api/explanation.${kind}?${shown}`)).blob();
    const link = make("a", { href: URL.createObjectURL(file), download: `${live.level}-${data.index}.${kind}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    say(`Saved as ${link.download}.`);
  } catch (error) { say(error.message, true); }
}

let searched = 0;
async function suggest(text) {
  const turn = ++searched;
  const found = await fetched(`/api/find?${new URLSearchParams({ text })}`).then((answer) => answer.json(), () => []);
  if (turn !== searched) return;
  by("found").replaceChildren(...found.map((node) => {
    const option = make("option", { value: node.id });
    option.textContent = node.name;
    return option;
  }));
}

by("level").textContent = live.level[0].toUpperCase() + live.level.slice(1);
by("nears").replaceChildren(...live.neighborhoods.map((near) => make("option", { value: near })));
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
by("chosen-one").addEventListener("click", () => walk(chosenId));
if (live.level === "node") {
  walk = (id) => {
    const query = new URLSearchParams(shown);
    query.set("index", id);
    go(query);
  };
  onChoose = (id) => { chosenId = id; by("chosen-one").toggleAttribute("hidden", id === null); };
}
addEventListener("hashchange", () => {
  const query = new URLSearchParams(location.hash.slice(1));
  fillIn(query);
  ask(query);
});
if (location.hash.length > 1) fillIn(new URLSearchParams(location.hash.slice(1)));
else {
  const first = new URLSearchParams({ index: live.index, near: live.near });
  live.chosen.forEach((name) => first.append("method", name));
  fillIn(first);
  history.replaceState(null, "", `#${first}`);
}
ask(question());

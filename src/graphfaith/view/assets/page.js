// The page: its state, and what is drawn first and what after.
const FIRST_EDGES = 400; // number of edges to show until the reader moves the slider
const state = { scale: 1, x: 0, y: 0, chosen: null, hovered: null };
let data = null;
let points = []; // of nodes, in units of a panel
let foldPoints = [];
let rings = []; // radii
let radius = []; // of nodes
let height = VIEW; // height of a panel; the width is always VIEW
let labels = []; // what is written at the nodes, then at the folds
let labelSizes = null; // of the labels; they are measured when the first are placed
let panels = []; // one for each explanation, and one for the difference of two if it is asked for
let tables = [];
let walk = null; // function that explains another node; only the live view, which has a server, sets it
let onChoose = null;
const asked = { share: false }; // whether the reader has moved the slider

function share() {
  if (restoring) return;
  // Only edges that no fold hides are counted, so that an opened fold has the same share of its links as the rest.
  const unfolded = data.edges.map((_, i) => isEdgeShown(i));
  const many = unfolded.filter(Boolean).length;
  const most = Math.round(Number(by("share").value) / 100 * many);
  const kept = goneUnits().edges; // What is gone and what is chosen stays in sight, however weak.
  for (const one of panels) {
    let rank = 0; // from the weakest
    for (const i of one.order) {
      const weak = unfolded[i] && rank < many - most && i !== state.chosen?.edge && !kept.has(i);
      if (unfolded[i]) rank += 1;
      one.edges[i].group.toggleAttribute("hidden", weak || !unfolded[i]);
    }
  }
  by("share-said").textContent = `${most} of ${many}`;
}

function layPanels() {
  by("panels").classList.toggle("one", panels.length === 1);
  by("panels").classList.toggle("four", data.panels.length === 4 && !difference && !data.fixed);
  by("panels").classList.toggle("wide", height < 0.5 * VIEW);
}

function writeHead() {
  document.title = data.title;
  by("title").textContent = data.title;
  by("headline").textContent = data.headline;
  by("near-words").textContent = data.near_words;
  sayAgreement();
  by("about").textContent = data.about;
  by("type-note").replaceChildren(...data.types.map((type) => {
    const entry = make("span", { class: "type-key" });
    const picture = draw("svg", { viewBox: "-14 -14 28 28", "aria-hidden": "true" });
    picture.append(drawType(type, 7));
    entry.append(picture, ` ${type.name}`);
    return entry;
  }));
  by("star-note").textContent = data.stars.length ? `Star: ${data.star_means}.` : "";
  by("explained-note").toggleAttribute("hidden", !data.explained.length);
  by("ring-note").toggleAttribute("hidden", !data.rings.length);
  by("fold-note").toggleAttribute("hidden", !data.folds.length);
}

function show(given, fields) {
  // Draw the pictures, and then what stands below them: the first time after the pictures were painted.
  const isFirst = data === null;
  data = given;
  Object.assign(state, { chosen: null, hovered: null });
  hub = null;
  resetGone();
  readFolds(data);
  writeHead();
  ({ points, foldPoints, rings, height } = place(data));
  radius = sizes(data, points, foldPoints);
  labels = readLabels();
  labelSizes = null;
  panels = data.panels.map((panel, i) => drawPanel(data, panel, i, height, radius));
  panels.forEach((one, i) => describe(one, data.panels[i], panels.length === 1));
  by("panels").replaceChildren(...panels.map((one) => one.section));
  panels.forEach(listen);
  for (const id of ["find", "shown"]) by(id).removeAttribute("hidden");
  by("pairs").toggleAttribute("hidden", !hasPairs());
  by("what-if").toggleAttribute("hidden", !onGone && data.panels.every((panel) => !panel.what_if));
  // If there are many edges, only the strongest are shown at first. The reader can show more with the slider. Where there
  // are folds, they hide what is weak, and whoever opens one wants to see its links.
  const first = data.folds.length ? 100 : Math.min(100, Math.ceil(100 * FIRST_EDGES / Math.max(1, data.edges.length)));
  if (!asked.share) by("share").value = first;
  restoreState(fields);
  reset();
  say("");
  if (onChoose) onChoose(null);
  performance.mark("drawn");
  if (isFirst) afterPaint(() => { if (data === given) showTables(); });
  else showTables();
}

function showTables() {
  tables = drawTables(data, choose);
  for (const table of tables) {
    table.mark(state.chosen);
    table.strike(gone);
  }
  drawAgreement(data);
  by("names").replaceChildren(...data.names.map((name) => make("option", { value: name })));
}

by("share").addEventListener("input", () => { asked.share = true; share(); });
// There is no form, because the sandbox of a notebook's frame does not allow submitting one.
by("find-it").addEventListener("click", () => search(by("search").value));
by("search").addEventListener("keydown", (event) => { if (event.key === "Enter") search(by("search").value); });
by("closer").addEventListener("click", () => zoom(1.25));
by("further").addEventListener("click", () => zoom(0.8));
by("all").addEventListener("click", reset);
by("see-agree").addEventListener("click", () => { by("compare").scrollIntoView(); by("agreement").querySelector("button")?.focus(); });
by("pairs").addEventListener("click", toggleArcs);
by("taking").addEventListener("click", toggleTaking);
by("undo").addEventListener("click", undo);
by("put-back").addEventListener("click", () => setGone([]));
by("take").addEventListener("click", () => toggleGone(state.chosen));
by("keep").toggleAttribute("hidden", framed);
by("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
addEventListener("resize", () => { if (data) placeAgain(); });
narrow.addEventListener("change", () => { if (data) labelAgain(); });
const readData = () => JSON.parse(by("data").textContent);
if (!by("ask")) { // The live view has that form, and begins by itself.
  const stated = () => new URLSearchParams(location.hash.length > 1 ? location.hash.slice(1) : root.dataset.state ?? "");
  by("keep").addEventListener("click", () => download(withState(sourceText()), "text/html", "explanation.html"));
  addEventListener("hashchange", () => { if (data) restoreState(stated()); });
  keepSource();
  show(readData(), stated());
}

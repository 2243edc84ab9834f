// The page: its state, the selection of nodes and edges, and the reactions to pointer and keyboard.
const FIRST_EDGES = 400; // number of edges to show until the reader moves the slider
const FIRST_NAMES = 10; // nodes that get their names before the folds do
const state = { scale: 1, x: 0, y: 0, chosen: null, hovered: null };
let data = null;
let points = []; // of nodes, in units of a panel
let foldPoints = [];
let rings = []; // radii
let radius = []; // of nodes
let height = VIEW; // height of a panel; the width is always VIEW
let marks = []; // what can have a name: the nodes, then the folds
let panels = []; // one for each explanation, and one for the difference of two if it is asked for
let tables = [];
let walk = null; // function that explains another node; only the live view, which has a server, sets it
let onChoose = null;
const asked = { share: false }; // whether the reader has moved the slider
let named = null; // the scale for which the names were placed last

// Moving -----------------------------------------------------------------------------------------------------------

const REST = 150; // milliseconds without movement after which the picture is drawn again
let drawn = { scale: 1, x: 0, y: 0 };
let waiting = false;
let resting = null;

function move() {
  // The picture is drawn at most once for each frame, even if many events request it.
  clearTimeout(resting);
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    const text = `translate(${state.x.toFixed(1)} ${state.y.toFixed(1)}) scale(${state.scale.toFixed(4)})`;
    for (const one of panels) {
      one.world.setAttribute("transform", text);
      one.svg.style.transform = "";
      one.stage.classList.remove("dragged");
    }
    drawn = { scale: state.scale, x: state.x, y: state.y };
    if (named !== state.scale) nameSome(data, panels, marksInOrder(), state.scale, height);
    named = state.scale;
  });
}

function glide() {
  // During a movement the finished picture is moved by CSS, because drawing thousands of edges again takes longer than
  // a frame.
  clearTimeout(resting);
  resting = setTimeout(move, REST);
  const grown = state.scale / drawn.scale;
  for (const one of panels) {
    const pixel = one.stage.clientWidth / VIEW;
    const [x, y] = [pixel * (state.x - grown * drawn.x), pixel * (state.y - grown * drawn.y)];
    one.stage.classList.add("dragged");
    one.svg.style.transform = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px) scale(${grown.toFixed(4)})`;
  }
}

function zoom(factor, cx = VIEW / 2, cy = height / 2, then = move) {
  const scale = Math.min(20, Math.max(0.5, state.scale * factor));
  const change = scale / state.scale;
  Object.assign(state, { scale, x: cx - change * (cx - state.x), y: cy - change * (cy - state.y) });
  then();
}

function placeAgain() {
  named = null; // The names must be placed again, because the picture or its size may have changed.
  move();
}

function reset() {
  Object.assign(state, { scale: 1, x: 0, y: 0 });
  fitAround(points.map((_, i) => i).filter(isShown));
  placeAgain();
}

function fitAround(nodes) {
  // Zoom out about the middle until these nodes are in view; if they are, nothing moves.
  const inset = 30;
  const spots = nodes.map((i) => [state.x + state.scale * points[i][0], state.y + state.scale * points[i][1]]);
  if (spots.every(([x, y]) => x > 0 && x < VIEW && y > 0 && y < height)) return;
  const every = points.filter((_, i) => isShown(i));
  const across = Math.max(...every.map(([x]) => Math.abs(x - VIEW / 2)), 1);
  const along = Math.max(...every.map(([, y]) => Math.abs(y - height / 2)), 1);
  const scale = Math.max(0.2, Math.min(1, (VIEW / 2 - inset) / across, (height / 2 - inset) / along));
  Object.assign(state, { scale, x: (1 - scale) * VIEW / 2, y: (1 - scale) * height / 2 });
  move();
}

// Names ------------------------------------------------------------------------------------------------------------

function readMarks() {
  // Return what can have a name. An atom has its symbol inside, and needs no other name that says the same.
  const labels = [
    ...data.labels.map((text, i) => (data.kinds?.nodes?.[i] === text ? "" : text)),
    ...data.folds.map((fold) => `${fold.members.length} more`),
  ];
  const sized = measure(labels);
  return labels.map((text, i) => ({ i, text, size: sized[i] }));
}

function marksInOrder() {
  // Return the marks that are shown in the order in which they get names: what is explained, then where the weight is.
  const strong = (i) => data.relevance[i] >= STRONG || data.explained.includes(i);
  const isLeft = ([x]) => data.rings.length > 0 && x < VIEW / 2 - 1;
  const nodes = data.label_order.filter(isShown).map((i) => ({
    ...marks[i], point: points[i], isLeft: isLeft(points[i]), radius: radius[i], always: data.explained.includes(i),
    // What is explained has a ring around it.
    away: radius[i] + (data.explained.includes(i) ? 7 : 1), solid: points.length <= FEW || strong(i),
  }));
  const folds = foldPoints.map((point, k) => ({
    ...marks[points.length + k], point, isLeft: isLeft(point), radius: FOLD, away: FOLD, solid: true, always: false,
    text: opened.has(k) ? "" : marks[points.length + k].text,
  }));
  return [...nodes.slice(0, FIRST_NAMES), ...folds, ...nodes.slice(FIRST_NAMES)];
}

// Pointer and keys -------------------------------------------------------------------------------------------------

function inView(one, event) {
  const box = one.stage.getBoundingClientRect();
  return [(event.clientX - box.left) * VIEW / box.width, (event.clientY - box.top) * height / box.height];
}

function under(one, event) {
  // Return the node or fold under the pointer, or else the edge near it. If the pointer is captured, the target of the
  // event is the panel, so the document is asked for the element.
  const mark = document.elementFromPoint(event.clientX, event.clientY)?.closest(".node, .fold");
  if (mark) return mark.dataset.node === undefined ? { fold: Number(mark.dataset.fold) } : { node: Number(mark.dataset.node) };
  const [x, y] = inView(one, event);
  const edge = nearestEdge(
    data, points, one.edges, (x - state.x) / state.scale, (y - state.y) / state.scale, 14 / state.scale,
  );
  return edge === null ? null : { edge };
}

function listen(one) {
  const { svg, stage } = one;
  const fingers = new Map(); // the last position of each pointer, in units of the panel
  let moved = false;
  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || fingers.size === 2) return;
    if (fingers.size === 0) moved = false;
    fingers.set(event.pointerId, inView(one, event));
    stage.setPointerCapture(event.pointerId);
  });
  stage.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) { if (fingers.size === 0) hover(under(one, event)); return; }
    const [was, now] = [fingers.get(event.pointerId), inView(one, event)];
    if (!moved && Math.hypot(now[0] - was[0], now[1] - was[1]) <= 4) return;
    moved = true;
    if (fingers.size === 1) {
      Object.assign(state, { x: state.x + now[0] - was[0], y: state.y + now[1] - was[1] });
      glide();
    } else { // With two fingers, the panel is zoomed about the finger that does not move.
      const [rests] = [...fingers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      const away = (place) => Math.hypot(place[0] - rests[0], place[1] - rests[1]);
      zoom(away(now) / Math.max(1, away(was)), ...rests, glide);
    }
    fingers.set(event.pointerId, now);
  });
  const letGo = (event) => {
    if (fingers.delete(event.pointerId) && fingers.size === 0 && moved) move();
  };
  stage.addEventListener("pointerup", (event) => {
    if (fingers.has(event.pointerId) && !moved) pick(under(one, event));
    letGo(event);
  });
  stage.addEventListener("pointercancel", letGo);
  stage.addEventListener("lostpointercapture", letGo);
  stage.addEventListener("pointerleave", () => { if (fingers.size === 0) hover(null); });
  stage.addEventListener("wheel", (event) => {
    // The wheel scrolls the page, unless the panel has the focus or the reader holds Ctrl.
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== svg) {
      hint("To zoom, click the panel first, or hold Ctrl.");
      return;
    }
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 400), ...inView(one, event), glide);
  }, { passive: false });
  stage.addEventListener("dblclick", (event) => {
    const what = under(one, event);
    if (walk && what?.node !== undefined) walk(data.ids[what.node]);
  });
  svg.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key in steps) step(...steps[event.key]);
    else if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "0") reset();
    else if (event.key === "Escape") choose(null);
    else if (event.key.toLowerCase() === "e") stepEdge();
    else if (event.key.toLowerCase() === "u") undo();
    else if (isTakeKey(event) && state.chosen) toggleGone(state.chosen);
    else if (event.key === "Enter" && state.chosen?.fold !== undefined) pick(state.chosen);
    else if (event.key === "Enter" && walk && state.chosen?.node !== undefined) walk(data.ids[state.chosen.node]);
    else return;
    event.preventDefault();
  });
}

const isTakeKey = (event) => event.key === "Delete" || event.key.toLowerCase() === "x";

function pick(what) {
  // React to a click: a fold opens or closes; anything else is chosen, or taken away if the reader wants that.
  if (what?.fold !== undefined) toggleFold(what.fold);
  else if (what && taking) { toggleGone(what); return; }
  choose(what);
}

const spotOf = (what) => (what.fold === undefined ? points[what.node] : foldPoints[what.fold]);

function step(dx, dy) {
  // Choose the nearest mark in that direction, starting from the chosen one or else from what is explained.
  const chosen = state.chosen;
  const start = { node: chosen?.edge === undefined ? data.explained[0] ?? 0 : data.edges[chosen.edge][0] };
  if (chosen?.node === undefined && chosen?.fold === undefined) { choose(start); return; }
  const from = spotOf(chosen);
  const marksShown = [
    ...points.map((_, i) => ({ node: i })).filter((what) => isShown(what.node)), ...foldPoints.map((_, k) => ({ fold: k })),
  ];
  let best = null;
  let least = Infinity;
  for (const what of marksShown) {
    const p = spotOf(what);
    const along = (p[0] - from[0]) * dx + (p[1] - from[1]) * dy;
    const across = Math.abs((p[0] - from[0]) * dy) + Math.abs((p[1] - from[1]) * dx);
    if (!same(what, chosen) && along > 0 && along + 2 * across < least) { least = along + 2 * across; best = what; }
  }
  if (best !== null) { choose(best); bringIn(spotOf(best)); }
}

let hub = null; // the node whose edges the key E goes through
function stepEdge() {
  if (state.chosen?.node !== undefined) hub = state.chosen.node;
  hub ??= data.explained[0] ?? 0;
  const own = data.edges.map((_, i) => i).filter((i) => data.edges[i].includes(hub) && isEdgeShown(i));
  if (!own.length) return;
  choose({ edge: own[(own.indexOf(state.chosen?.edge) + 1) % own.length] });
}

function bringIn(spot) {
  // Move the view only if the mark is outside it.
  const [x, y] = [state.x + state.scale * spot[0], state.y + state.scale * spot[1]];
  if (x > 0 && x < VIEW && y > 0 && y < height) return;
  state.x += VIEW / 2 - x;
  state.y += height / 2 - y;
  move();
}

// Choosing ---------------------------------------------------------------------------------------------------------

function markIn(one, what, name, on) {
  // Mark an element in a panel. A feature has none.
  const node = what.node ?? what.loop;
  const element = node !== undefined ? one.nodes[node]
    : what.fold !== undefined ? one.folds[what.fold].mark
      : what.edge !== undefined ? one.edges[what.edge].group : null;
  element?.classList.toggle(name, on);
}

function hover(what) {
  if (what === state.hovered || same(what, state.hovered)) return;
  for (const one of panels) {
    if (state.hovered) markIn(one, state.hovered, "hot", false);
    if (what) markIn(one, what, "hot", true);
  }
  state.hovered = what;
  const said = what ?? state.chosen;
  hint(said ? words(said) : "");
}

function words(what) {
  if (what.fold !== undefined) return foldWords(what.fold);
  if (what.feature !== undefined) return featureWords(data.features[what.feature]);
  const said = (values, scale) => data.panels.filter((panel) => panel[scale]).map((panel) => {
    const score = short(panel[values][what[kindOf(what)]] * panel[scale]);
    return `${isolate(panel.title)} ${score}${noted(panel, values === "nodes" ? "features" : "edges")}`;
  }).join(", ");
  if (what.node === undefined) return `${nameOf(what)}: ${said(what.loop === undefined ? "edges" : "loops", "edge_scale") || "no score"}`;
  const loops = data.panels.some((panel) => panel.loops[what.node]) ? `; self-loop: ${said("loops", "edge_scale")}` : "";
  return `${nameOf(what)}: ${said("nodes", "node_scale") || "no score"}${loops}`;
}

function featureWords({ name, values, value }) {
  const said = data.panels.flatMap((panel, i) => (
    values[i] === null ? [] : [`${isolate(panel.title)} ${short(values[i])}${noted(panel, "features")}`]
  )).join(", ");
  const absent = value === 0 ? " (absent here: the score says what it would do if it were there)" : "";
  return `${isolate(name)}${absent}: ${said || "no score"}`;
}

function choose(what) {
  for (const one of panels) {
    if (state.chosen) markIn(one, state.chosen, "chosen", false);
    if (what) markIn(one, what, "chosen", true);
  }
  state.chosen = what;
  openFor(what);
  share(); // A chosen edge is shown even if it is weak.
  for (const table of tables) table.mark(what);
  say(what ? words(what) : "");
  showTake();
  if (onChoose) onChoose(what?.node === undefined ? null : data.ids[what.node]);
}

function search(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) { choose(null); return; }
  const names = data.names.map((name) => name.toLowerCase());
  // A label may be another word than the name, as N3 for the atom 3, and it is what the reader sees.
  const labels = data.labels.map((label) => label.toLowerCase());
  const exact = data.ids.findIndex((id, i) => names[i] === wanted || labels[i] === wanted || String(id) === wanted);
  const found = exact >= 0 ? exact : names.findIndex((name) => name.includes(wanted));
  if (found < 0) { choose(null); say(`No node shown here is called \u201c${isolate(text.trim())}\u201d.`, true); return; }
  choose({ node: found });
  state.x = VIEW / 2 - state.scale * points[found][0];
  state.y = height / 2 - state.scale * points[found][1];
  move();
}

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

// The whole page ---------------------------------------------------------------------------------------------------

function layPanels() {
  by("panels").classList.toggle("one", panels.length === 1);
  by("panels").classList.toggle("four", data.panels.length === 4 && !difference && !data.fixed);
  by("panels").classList.toggle("wide", height < 0.5 * VIEW);
}

function writeHead() {
  document.title = data.title;
  by("title").textContent = data.title;
  by("headline").textContent = data.headline?.text ?? "";
  by("near-words").textContent = data.headline?.near ? `What speaks for and against it ${data.headline.near}.` : "";
  by("about").textContent = data.about;
  by("star-note").textContent = data.stars.length ? `Star: ${data.star_means}.` : "";
  by("ring-note").toggleAttribute("hidden", !data.rings.length);
  by("fold-note").toggleAttribute("hidden", !data.folds.length);
}

function show(given, fields) {
  data = given;
  Object.assign(state, { chosen: null, hovered: null });
  hub = null;
  resetGone();
  readFolds(data);
  writeHead();
  ({ points, foldPoints, rings, height } = place(data));
  radius = sizes(data, points, foldPoints);
  marks = readMarks();
  panels = data.panels.map((panel, i) => drawPanel(data, panel, i, height, radius));
  panels.forEach((one, i) => describe(one, data.panels[i], panels.length === 1));
  by("panels").replaceChildren(...panels.map((one) => one.section));
  by("names").replaceChildren(...data.names.map((name) => make("option", { value: name })));
  panels.forEach(listen);
  tables = drawTables(data, choose);
  drawAgreement(data);
  for (const id of ["find", "shown"]) by(id).removeAttribute("hidden");
  by("pairs").toggleAttribute("hidden", !hasPairs());
  by("what-if").toggleAttribute("hidden", !onGone && data.panels.every((panel) => !panel.what_if));
  // If there are many edges, only the strongest are shown at first. The reader can show more with the slider. Where there
  // are folds, they hide what is weak, and whoever opens one wants to see its links.
  const first = data.folds.length ? 100 : Math.min(100, Math.ceil(100 * FIRST_EDGES / Math.max(1, data.edges.length)));
  if (!asked.share) by("share").value = first;
  restoreState(fields);
  reset();
  choose(null);
  performance.mark("drawn");
}

by("share").addEventListener("input", () => { asked.share = true; share(); });
// There is no form, because the sandbox of a notebook's frame does not allow submitting one.
by("find-it").addEventListener("click", () => search(by("search").value));
by("search").addEventListener("keydown", (event) => { if (event.key === "Enter") search(by("search").value); });
by("closer").addEventListener("click", () => zoom(1.25));
by("further").addEventListener("click", () => zoom(0.8));
by("all").addEventListener("click", reset);
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
const readData = () => JSON.parse(by("data").textContent);
if (!by("ask")) { // The live view has that form, and begins by itself.
  const stated = () => new URLSearchParams(location.hash.length > 1 ? location.hash.slice(1) : root.dataset.state ?? "");
  by("keep").addEventListener("click", () => download(withState(source), "text/html", "explanation.html"));
  addEventListener("hashchange", () => { if (data) restoreState(stated()); });
  // The browser paints the rest of the page before the panels are made. A hidden frame gets no animation frame, so the
  // panels are made after 100 ms in any case.
  const begin = () => {
    if (data !== null) return;
    keepSource();
    show(readData(), stated());
  };
  requestAnimationFrame(() => setTimeout(begin));
  setTimeout(begin, 100);
}

// The page: its state, the selection of nodes and edges, and the reactions to pointer and keyboard.
const FIRST_EDGES = 400; // number of edges to show until the reader moves the slider
const state = { scale: 1, x: 0, y: 0, chosen: null, hovered: null };
let data = null;
let points = [];
let radius = [];
let height = VIEW; // height of a panel; the width is always VIEW
let panels = [];
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
    if (named !== state.scale) nameSome(data, points, radius, panels, state.scale);
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

function reset() {
  Object.assign(state, { scale: 1, x: 0, y: 0 });
  named = null; // The names must be placed again, because the picture or its size may have changed.
  move();
}

function inView(one, event) {
  const box = one.stage.getBoundingClientRect();
  return [(event.clientX - box.left) * VIEW / box.width, (event.clientY - box.top) * height / box.height];
}

function under(one, event) {
  // Return the node under the pointer, or else the edge near it. If the pointer is captured, the target of the event is
  // the panel, so the document is asked for the element.
  const node = document.elementFromPoint(event.clientX, event.clientY)?.closest(".node");
  if (node) return { node: Number(node.dataset.node) };
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
    if (fingers.has(event.pointerId) && !moved) choose(under(one, event));
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
    else if (event.key === "Enter" && walk && state.chosen?.node !== undefined) walk(data.ids[state.chosen.node]);
    else return;
    event.preventDefault();
  });
}

function step(dx, dy) {
  // Choose the nearest node in that direction, starting from the chosen node or else from the explained one.
  const from = state.chosen?.node ?? data.explained[0] ?? 0;
  if (state.chosen?.node === undefined) { choose({ node: from }); return; }
  let best = null;
  let least = Infinity;
  points.forEach((p, i) => {
    const along = (p[0] - points[from][0]) * dx + (p[1] - points[from][1]) * dy;
    const across = Math.abs((p[0] - points[from][0]) * dy) + Math.abs((p[1] - points[from][1]) * dx);
    if (i !== from && along > 0 && along + 2 * across < least) { least = along + 2 * across; best = i; }
  });
  if (best !== null) { choose({ node: best }); bringIn(best); }
}

function bringIn(node) {
  // Move the view only if the node is outside it.
  const [x, y] = [state.x + state.scale * points[node][0], state.y + state.scale * points[node][1]];
  if (x > 0 && x < VIEW && y > 0 && y < height) return;
  state.x += VIEW / 2 - x;
  state.y += height / 2 - y;
  move();
}

// Choosing ---------------------------------------------------------------------------------------------------------

function marked(one, what) {
  return what.node === undefined ? one.edges[what.edge].group : one.nodes[what.node];
}

function hover(what) {
  if (what?.node === state.hovered?.node && what?.edge === state.hovered?.edge) return;
  for (const one of panels) {
    if (state.hovered) marked(one, state.hovered).classList.remove("hot");
    if (what) marked(one, what).classList.add("hot");
  }
  state.hovered = what;
  const said = what ?? state.chosen;
  hint(said ? words(said) : "");
}

function words(what) {
  const said = (values, scale) => data.panels.filter((panel) => panel[scale]).map((panel) => {
    const score = short(panel[values][what.node ?? what.edge] * panel[scale]);
    return `${isolate(panel.title)} ${score}${noted(panel, values === "nodes" ? "features" : "edges")}`;
  }).join(", ");
  if (what.node === undefined) {
    const ends = data.edges[what.edge].map((i) => isolate(data.names[i]));
    return `${ends.join(data.directed ? " \u2192 " : " \u2013 ")}: ${said("edges", "edge_scale") || "no score"}`;
  }
  const loops = data.panels.some((panel) => panel.loops[what.node]) ? `; self-loop: ${said("loops", "edge_scale")}` : "";
  return `${isolate(data.names[what.node])}: ${said("nodes", "node_scale") || "no score"}${loops}`;
}

function choose(what) {
  for (const one of panels) {
    if (state.chosen) marked(one, state.chosen).classList.remove("chosen");
    if (what) marked(one, what).classList.add("chosen");
  }
  state.chosen = what;
  share(); // A chosen edge is shown even if it is weak.
  for (const table of tables) table.mark(what);
  say(what ? words(what) : "");
  if (onChoose) onChoose(what?.node === undefined ? null : data.ids[what.node]);
}

function search(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) { choose(null); return; }
  const names = data.names.map((name) => name.toLowerCase());
  const exact = data.ids.findIndex((id, i) => names[i] === wanted || String(id) === wanted);
  const found = exact >= 0 ? exact : names.findIndex((name) => name.includes(wanted));
  if (found < 0) { choose(null); say(`No node shown here is called \u201c${isolate(text.trim())}\u201d.`, true); return; }
  state.x = VIEW / 2 - state.scale * points[found][0];
  state.y = height / 2 - state.scale * points[found][1];
  move();
  choose({ node: found });
}

function share() {
  const count = Math.round(Number(by("share").value) / 100 * data.edges.length);
  for (const one of panels) one.edges.forEach((edge, i) => {
    edge.group.toggleAttribute("hidden", edge.rank < data.edges.length - count && i !== state.chosen?.edge);
  });
  by("share-said").textContent = `${count} of ${data.edges.length}`;
}

// The whole page ---------------------------------------------------------------------------------------------------

function show(given) {
  data = given;
  Object.assign(state, { chosen: null, hovered: null });
  document.title = data.title;
  by("title").textContent = data.title;
  by("about").textContent = data.about;
  by("star-note").textContent = data.stars.length ? `Star: ${data.star_means}.` : "";
  ({ points, height } = place(data.positions, data.fixed));
  radius = sizes(data, points);
  panels = data.panels.map((_, i) => drawPanel(data, i, points, height, radius));
  by("panels").classList.toggle("four", panels.length === 4 && !data.fixed);
  by("panels").classList.toggle("wide", height < 0.5 * VIEW);
  by("panels").replaceChildren(...panels.map((one) => one.section));
  by("names").replaceChildren(...data.names.map((name) => make("option", { value: name })));
  panels.forEach(listen);
  drawBars(data);
  tables = drawTables(data, choose);
  for (const id of ["find", "shown"]) by(id).removeAttribute("hidden");
  // If there are many edges, only the strongest are shown at first. The reader can show more with the slider.
  if (!asked.share) by("share").value = Math.min(100, Math.ceil(100 * FIRST_EDGES / Math.max(1, data.edges.length)));
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
by("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
addEventListener("resize", () => { if (data) { named = null; move(); } });
const given = JSON.parse(by("data").textContent);
if (given.panels) {
  // The browser paints the rest of the page before the panels are made. A hidden frame gets no animation frame, so the
  // panels are made after 100 ms in any case.
  const begin = () => { if (data === null) show(given); };
  requestAnimationFrame(() => setTimeout(begin));
  setTimeout(begin, 100);
}

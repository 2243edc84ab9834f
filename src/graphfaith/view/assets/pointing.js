// Pointing: what the pointer, the fingers and the keys do in a panel.

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

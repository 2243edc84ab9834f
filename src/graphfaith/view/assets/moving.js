// Moving: panels are moved and zoomed together.
const REST = 150; // milliseconds without movement after which the picture is drawn again
let drawn = { scale: 1, x: 0, y: 0 };
let waiting = false;
let resting = null;
let named = null; // the scale for which the names were placed last

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

function bringIn(spot) {
  // Move the view only if the mark is outside it.
  const [x, y] = [state.x + state.scale * spot[0], state.y + state.scale * spot[1]];
  if (x > 0 && x < VIEW && y > 0 && y < height) return;
  state.x += VIEW / 2 - x;
  state.y += height / 2 - y;
  move();
}

// Panels: one picture an explanation, all with the nodes in the same places.
const MARGIN = 70;
const LOOP_FROM = 0.03; // weaker self-loops are left out, as in the figure
const fixed = (number) => number.toFixed(1);
const at = (point) => `${fixed(point[0])} ${fixed(point[1])}`;

function place(positions) {
  // Across the whole panel; as high as the layout asks, but no slit.
  const range = (axis) => {
    const values = positions.map((p) => p[axis]);
    return [Math.min(...values), Math.max(...values)];
  };
  const [x, y] = [range(0), range(1)];
  const span = Math.max(x[1] - x[0], 1e-9, y[1] - y[0]);
  const height = Math.min(VIEW, Math.max(0.6 * VIEW, 2 * MARGIN + (VIEW - 2 * MARGIN) * (y[1] - y[0]) / span));
  const scale = positions.length > 1 ? (VIEW - 2 * MARGIN) / span : 0;
  const points = positions.map((p) => [
    VIEW / 2 + scale * (p[0] - (x[0] + x[1]) / 2), height / 2 - scale * (p[1] - (y[0] + y[1]) / 2),
  ]);
  return { points, height };
}

function sizes(data, points) {
  const gaps = points.map((p, i) => {
    let best = Infinity;
    points.forEach((q, j) => { if (i !== j) best = Math.min(best, Math.hypot(p[0] - q[0], p[1] - q[1])); });
    return best;
  }).sort((a, b) => a - b);
  const gap = gaps.length > 1 ? gaps[Math.floor(gaps.length / 5)] : 100;
  const base = Math.min(26, Math.max(6, 0.36 * gap));
  return data.relevance.map((r, i) => (
    data.explained.includes(i) ? Math.max(base, 17) : base * (0.5 + 0.5 * Math.sqrt(r))
  ));
}

function towards(a, b) {
  const length = Math.hypot(b[0] - a[0], b[1] - a[1]) || 1;
  return { length, u: [(b[0] - a[0]) / length, (b[1] - a[1]) / length] };
}

function edgePath(a, b, radius, arrow, bowed) {
  if (!arrow) return `M${at(a)}L${at(b)}`;
  const { length, u } = towards(a, b);
  const end = [b[0] - u[0] * (radius + 9), b[1] - u[1] * (radius + 9)];
  const bow = bowed ? 0.12 * length : 0;
  const middle = [(a[0] + end[0]) / 2 - u[1] * bow, (a[1] + end[1]) / 2 + u[0] * bow];
  return `M${at(a)}Q${at(middle)} ${at(end)}`;
}

function headPath(a, b, radius, width, bowed) {
  const bow = bowed ? 0.12 * towards(a, b).length : 0;
  const straight = towards(a, b).u;
  const middle = [(a[0] + b[0]) / 2 - straight[1] * bow, (a[1] + b[1]) / 2 + straight[0] * bow];
  const { u } = towards(middle, b); // a bowed edge arrives from its bow
  const tip = [b[0] - u[0] * (radius + 2), b[1] - u[1] * (radius + 2)];
  const back = [tip[0] - u[0] * (9 + width), tip[1] - u[1] * (9 + width)];
  const half = 4 + width / 2;
  return `M${at(tip)}L${at([back[0] - u[1] * half, back[1] + u[0] * half])}` +
    `L${at([back[0] + u[1] * half, back[1] - u[0] * half])}Z`;
}

function drawEdge(score, [from, to], radius, directed, bowed) {
  const width = score === 0 ? 1.2 : 1.4 + 10 * Math.abs(score);
  const opacity = score === 0 ? 1 : (0.25 + 0.75 * Math.abs(score)).toFixed(2);
  const line = draw("path", {
    class: `edge ${sign(score)}`, d: edgePath(from, to, radius, directed, bowed),
    "stroke-width": fixed(width), "stroke-opacity": opacity,
  });
  if (score < 0) line.setAttribute("stroke-dasharray", `${(2.2 * width + 5).toFixed(0)} ${(1.1 * width + 4).toFixed(0)}`);
  if (!directed) return { group: line, line };
  const group = draw("g");
  group.append(line, draw("path", {
    class: `head ${sign(score)}`, d: headPath(from, to, radius, width, bowed), "fill-opacity": opacity,
  }));
  return { group, line };
}

function drawNode(data, panel, i, point, radius) {
  const score = panel.nodes[i];
  const loop = panel.loops[i];
  const explained = panel.explained.includes(i);
  const group = draw("g", {
    class: `node${explained ? " explained" : ""}`, transform: `translate(${at(point)})`, "data-node": i,
  });
  if (Math.abs(loop) >= LOOP_FROM) {
    const width = 1.2 + 7 * Math.abs(loop);
    const circle = draw("circle", {
      class: `loop ${sign(loop)}`, cx: fixed(radius), cy: fixed(radius), r: fixed(0.8 * radius),
      "stroke-width": fixed(width),
    });
    if (loop < 0) circle.setAttribute("stroke-dasharray", "9 6");
    group.append(circle);
  }
  const rim = draw("circle", {
    class: `rim ${sign(score)}`, r: fixed(explained ? radius + 5 : radius), "stroke-width": explained ? 4 : 2,
  });
  if (score < 0) rim.setAttribute("stroke-dasharray", "7 5");
  group.append(
    draw("circle", { class: "disc", r: fixed(radius) }),
    draw("circle", {
      class: `fill ${explained ? "" : sign(score)}`, r: fixed(score < 0 && !explained ? 0.75 * radius : radius),
      "fill-opacity": explained ? 1 : Math.abs(score).toFixed(2),
    }),
    rim,
    draw("text", aside(point, radius), data.labels[i]),
    draw("title", {}, `${isolate(data.names[i])}: ${short(score * panel.node_scale)}`),
  );
  return group;
}

const flipped = (point) => point[0] > 0.85 * VIEW; // its name would leave the panel

function aside(point, radius) {
  return flipped(point) ? { x: fixed(-radius - 5), "text-anchor": "end" } : { x: fixed(radius + 5) };
}

function drawPanel(data, number, points, height, radius) {
  const panel = data.panels[number];
  const section = make("section", { class: "panel", "aria-labelledby": `panel-${number}` });
  const svg = draw("svg", {
    viewBox: `0 0 ${VIEW} ${height.toFixed(0)}`, tabindex: "0", role: "application",
    "aria-label": `${panel.title}: ${data.names.length} nodes, ${data.edges.length} edges. Arrow keys move from node ` +
      "to node, plus and minus zoom, 0 shows all, Escape lets go. The tables below have the same scores.",
  });
  const world = draw("g");
  const stage = make("div", { class: "stage" });
  svg.append(world);
  stage.append(svg);
  const known = new Set(data.edges.map(([s, t]) => `${s} ${t}`));
  // The weakest first, so that the strongest lie on top.
  const order = panel.edges.map((_, i) => i).sort((i, j) => Math.abs(panel.edges[i]) - Math.abs(panel.edges[j]));
  const edges = new Array(order.length);
  order.forEach((i, rank) => {
    const [s, t] = data.edges[i];
    edges[i] = drawEdge(panel.edges[i], [points[s], points[t]], radius[t], data.directed, known.has(`${t} ${s}`));
    edges[i].rank = rank;
    world.append(edges[i].group);
  });
  const nodes = points.map((point, i) => drawNode(data, panel, i, point, radius[i]));
  world.append(...nodes);
  section.append(
    make("h2", { id: `panel-${number}` }, panel.title), make("p", { class: "faint" }, panel.subtitle), stage,
    make("p", { class: "faint" }, panel.scale),
  );
  return { section, stage, svg, world, edges, nodes };
}

function nameSome(data, points, panels, scale) {
  // A name is shown where it hides no other, strongest first; all of them when zoomed in far enough.
  const taken = [];
  const shown = new Set();
  const order = data.relevance.map((_, i) => i).sort((i, j) => data.relevance[j] - data.relevance[i]);
  const width = panels[0].svg.clientWidth || 400;
  const unit = VIEW / width / scale; // one pixel
  const size = 11.5 * unit;
  for (const i of [...data.explained, ...order]) {
    if (shown.has(i)) continue;
    const [x, y] = points[i];
    const reach = 0.6 * size * data.labels[i].length + 28;
    const box = [flipped(points[i]) ? x - reach : x, y - size, flipped(points[i]) ? x : x + reach, y + size / 2];
    if (taken.some((b) => b[0] < box[2] && box[0] < b[2] && b[1] < box[3] && box[1] < b[3])) continue;
    taken.push(box);
    shown.add(i);
  }
  for (const one of panels) one.nodes.forEach((node, i) => {
    const label = node.querySelector("text");
    label.toggleAttribute("hidden", !shown.has(i));
    label.setAttribute("font-size", fixed(size));
    label.setAttribute("y", fixed(0.35 * size));
    label.setAttribute("stroke-width", fixed(2.5 * unit));
  });
}

function nearestEdge(data, points, edges, x, y, reach) {
  // The shown edge that passes closest to a point, if one passes within reach. Bowed ones count as straight.
  let best = null;
  let least = reach;
  data.edges.forEach(([s, t], i) => {
    if (edges[i].group.hasAttribute("hidden")) return;
    const [a, b] = [points[s], points[t]];
    const along = [b[0] - a[0], b[1] - a[1]];
    const square = along[0] ** 2 + along[1] ** 2 || 1;
    const share = Math.min(1, Math.max(0, ((x - a[0]) * along[0] + (y - a[1]) * along[1]) / square));
    const away = Math.hypot(x - a[0] - share * along[0], y - a[1] - share * along[1]);
    if (away < least) { least = away; best = i; }
  });
  return best;
}

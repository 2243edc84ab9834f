// Panels: one picture for each explanation, all with the nodes at the same places.
const MARGIN = 70;
// Names cover no node if there are at most FEW nodes; otherwise they cover no node of relevance STRONG or more.
const FEW = 60;
const STRONG = 0.25;
const LOOP_FROM = 0.03; // weaker self-loops are not drawn, as in the figure
const fixed = (number) => number.toFixed(1);
const at = (point) => `${fixed(point[0])} ${fixed(point[1])}`;

function place(positions, fixed) {
  // The layout fills the width of the panel. Its height is that of the layout, but at least a share of the width.
  const range = (axis) => {
    const values = positions.map((p) => p[axis]);
    return [Math.min(...values), Math.max(...values)];
  };
  const [x, y] = [range(0), range(1)];
  const span = Math.max(x[1] - x[0], 1e-9, y[1] - y[0]);
  const height = Math.min(VIEW, Math.max((fixed ? 0.35 : 0.6) * VIEW, 2 * MARGIN + (VIEW - 2 * MARGIN) * (y[1] - y[0]) / span));
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
  const { u } = towards(middle, b); // The head of a bowed edge points along the end of the curve.
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
      class: `loop ${sign(loop)}`, cx: fixed(-radius), cy: fixed(radius), r: fixed(0.8 * radius),
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
    draw("title", {}, data.names[i]),
  );
  return group;
}

function drawStar(radius) {
  // The star is at the upper left of the disc, where it does not cover the colour of the node.
  const size = 1.2 * Math.max(radius, 12);
  const tips = Array.from({ length: 10 }, (_, i) => {
    const [far, angle] = [i % 2 ? 0.42 * size : size, Math.PI * (i / 5 - 0.5)];
    return at([far * Math.cos(angle) - 0.9 * radius, far * Math.sin(angle) - 0.9 * radius]);
  });
  return draw("path", { class: "star", d: `M${tips.join("L")}Z` });
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
  // The weakest edges are drawn first, so that the strongest are on top.
  const order = panel.edges.map((_, i) => i).sort((i, j) => Math.abs(panel.edges[i]) - Math.abs(panel.edges[j]));
  const edges = new Array(order.length);
  order.forEach((i, rank) => {
    const [s, t] = data.edges[i];
    edges[i] = drawEdge(panel.edges[i], [points[s], points[t]], radius[t], data.directed, known.has(`${t} ${s}`));
    edges[i].rank = rank;
    world.append(edges[i].group);
  });
  const nodes = points.map((point, i) => drawNode(data, panel, i, point, radius[i]));
  for (const i of data.stars) nodes[i].append(drawStar(radius[i]));
  const names = data.labels.map((text) => draw("text", { class: "name" }, text));
  world.append(...nodes, ...names);
  section.append(
    make("h2", { id: `panel-${number}` }, panel.title), make("p", { class: "faint line" }, panel.near),
    make("p", { class: "line" }, panel.share), stage,
    make("p", { class: "faint" }, panel.scale),
  );
  return { section, stage, svg, world, edges, nodes, names };
}

// The distance from a node to its name: the explained node has a ring, which needs more room.
const beside = (data, radius, i) => radius[i] + (data.explained.includes(i) ? 11 : 5);
// The width of a text in letters: East Asian letters and pictograms are wider than others.
const wide = (text) => [...text].reduce((sum, letter) => sum + (letter.codePointAt(0) > 0x2e7f ? 1.7 : 1), 0);

function nameSome(data, points, radius, panels, scale) {
  // A name is shown if it covers neither another name nor a strong node; strong nodes get their names first. When the
  // reader zooms in, more names fit.
  const pixel = VIEW / (panels[0].stage.clientWidth || 400) / scale;
  const size = 11.5 * pixel;
  const taken = points.flatMap(([x, y], i) => (
    points.length > FEW && data.relevance[i] < STRONG && !data.explained.includes(i) ? []
      : [{ i, box: [x - radius[i], y - radius[i], x + radius[i], y + radius[i]] }]
  ));
  const free = (i, box) => !taken.some((other) => other.i !== i &&
    other.box[0] < box[2] && box[0] < other.box[2] && other.box[1] < box[3] && box[1] < other.box[3]);
  const order = data.relevance.map((_, i) => i).sort((i, j) => data.relevance[j] - data.relevance[i]);
  const sides = new Map();
  for (const i of [...data.explained, ...order]) {
    if (sides.has(i)) continue;
    const [x, y] = points[i];
    const start = beside(data, radius, i);
    const reach = start + 0.62 * size * wide(data.labels[i]);
    const right = [x + start, y - 0.6 * size, x + reach, y + 0.6 * size];
    const left = [x - reach, right[1], x - start, right[3]];
    // The name goes to the right of the node if there is room, or else to the left. The explained node always has one.
    const side = right[2] < VIEW && free(i, right) ? "start" : left[0] > 0 && free(i, left) ? "end" : null;
    if (side === null && !data.explained.includes(i)) continue;
    sides.set(i, side ?? "start");
    taken.push({ i, box: side === "end" ? left : right });
  }
  for (const one of panels) one.names.forEach((name, i) => {
    name.toggleAttribute("hidden", !sides.has(i));
    const flip = sides.get(i) === "end";
    fill(name, {
      x: fixed(points[i][0] + (flip ? -1 : 1) * beside(data, radius, i)), y: fixed(points[i][1] + 0.35 * size),
      "text-anchor": flip ? "end" : "start", "font-size": fixed(size), "stroke-width": fixed(2.5 * pixel),
    });
  });
}

function nearestEdge(data, points, edges, x, y, reach) {
  // Return the visible edge nearest to a point, or null if none is within reach. Bowed edges are treated as straight.
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

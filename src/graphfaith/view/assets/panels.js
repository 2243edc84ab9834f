// Panels: one picture for each explanation, all with the nodes at the same places.
const MARGIN = 70;
const LOOP_FROM = 0.03; // weaker self-loops are not drawn, as in the figure
const OFF = 0.57; // the most of a panel that one side of what is explained gets; it stays within a tenth of the middle
const FOLD = 13; // radius of the mark of a fold
const MOST_LINES = 4; // of a bond; no bond of a molecule has a higher order
const at = (point) => `${fixed(point[0])} ${fixed(point[1])}`;

function place(data) {
  // Return where the nodes, the folds and the rings are in a panel. A layout of rings has what is explained about in the
  // middle; any other fills the panel. The height is that of the layout, but at least a share of the width.
  const first = data.positions.filter((_, i) => foldOf[i] < 0);
  const seen = [...first, ...data.folds.map((fold) => fold.position)];
  const range = (axis) => {
    const values = seen.map((p) => p[axis]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    if (!data.rings.length || !data.explained.length) return { middle: (low + high) / 2, span: high - low };
    const about = data.explained.reduce((sum, i) => sum + data.positions[i][axis], 0) / data.explained.length;
    const [above, below] = [high - about, about - low];
    // If one side has more, it gets a little more of the panel, so that less of it is empty.
    const share = Math.min(OFF, Math.max(1 - OFF, above / (above + below || 1)));
    const span = Math.max(above / share, below / (1 - share));
    return { middle: about + (share - 0.5) * span, span };
  };
  const [x, y] = [range(0), range(1)];
  const span = Math.max(x.span, 1e-9, y.span);
  const least = (data.fixed ? 0.35 : 0.6) * VIEW;
  const height = Math.min(VIEW, Math.max(least, 2 * MARGIN + (VIEW - 2 * MARGIN) * y.span / span));
  const scale = seen.length > 1 ? (VIEW - 2 * MARGIN) / span : 0;
  const put = (p) => [VIEW / 2 + scale * (p[0] - x.middle), height / 2 - scale * (p[1] - y.middle)];
  return {
    points: data.positions.map(put), foldPoints: data.folds.map((fold) => put(fold.position)),
    rings: data.rings.map((r) => scale * r), height,
  };
}

function nearestGap(points, i) {
  let best = Infinity;
  points.forEach((q, j) => { if (i !== j) best = Math.min(best, Math.hypot(points[i][0] - q[0], points[i][1] - q[1])); });
  return best;
}

function sizes(data, points, foldPoints) {
  // The size of a node is limited by the gaps between the nodes that are seen at first; nodes of a fold stand closer.
  const first = [...points.filter((_, i) => foldOf[i] < 0), ...foldPoints];
  const gaps = first.map((_, i) => nearestGap(first, i)).sort((a, b) => a - b);
  const gap = gaps.length > 1 ? gaps[Math.floor(gaps.length / 5)] : 100;
  const base = Math.min(26, Math.max(6, 0.36 * gap));
  return data.relevance.map((r, i) => {
    if (data.explained.includes(i)) return Math.max(base, 17);
    if (data.kinds?.nodes?.[i]) return Math.min(26, Math.max(base, 15)); // An atom has room for its symbol.
    const most = foldOf[i] < 0 ? base : Math.min(base, Math.max(4, 0.4 * nearestGap(points, i)));
    return most * (0.5 + 0.5 * Math.sqrt(r));
  });
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

function linesOf(order, from, to, width) {
  // Return the lines of a bond: as many as its order, but at most MOST_LINES, and for an aromatic one (1.5) a second one
  // that is dashed.
  if (!order || order <= 1) return [{ from, to, width }];
  const many = Math.min(MOST_LINES, Math.ceil(order));
  const { u } = towards(from, to);
  const thin = Math.max(1.6, 0.6 * width);
  return Array.from({ length: many }, (_, k) => {
    const off = (k - (many - 1) / 2) * (thin + 5);
    const shift = (p) => [p[0] - u[1] * off, p[1] + u[0] * off];
    return { from: shift(from), to: shift(to), width: thin, broken: order < many && k === many - 1 };
  });
}

function drawEdge(score, [from, to], radius, directed, bowed, order = null) {
  const width = score === 0 ? 1.2 : 1.4 + 10 * Math.abs(score);
  const opacity = score === 0 ? 1 : (0.25 + 0.75 * Math.abs(score)).toFixed(2);
  const lines = linesOf(order, from, to, width).map((one) => {
    const line = draw("path", {
      class: `edge ${sign(score)}`, d: edgePath(one.from, one.to, radius, directed, bowed),
      "stroke-width": fixed(one.width), "stroke-opacity": opacity,
    });
    if (score < 0) line.setAttribute("stroke-dasharray", `${(2.2 * one.width + 5).toFixed(0)} ${(1.1 * one.width + 4).toFixed(0)}`);
    if (one.broken) line.setAttribute("stroke-dasharray", "3 5");
    return line;
  });
  if (!directed && lines.length === 1) return { group: lines[0], line: lines[0] };
  const group = draw("g");
  group.append(...lines);
  if (directed) group.append(draw("path", {
    class: `head ${sign(score)}`, d: headPath(from, to, radius, width, bowed), "fill-opacity": opacity,
  }));
  return { group, line: lines[0] };
}

function drawNode(data, panel, i, point, radius) {
  const score = panel.painted.features ? panel.nodes[i] : 0;
  const loop = panel.painted.edges ? panel.loops[i] : 0;
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
  if (data.types.length) group.append(drawType(data.types[data.type_of[i]], frameOf(radius)));
  group.append(
    draw("circle", { class: "disc", r: fixed(radius) }),
    draw("circle", {
      class: `fill ${explained ? "" : sign(score)}`, r: fixed(score < 0 && !explained ? 0.75 * radius : radius),
      "fill-opacity": explained ? 1 : Math.abs(score).toFixed(2),
    }),
    rim,
    draw("title", {}, data.names[i]),
  );
  const symbol = data.kinds?.nodes?.[i];
  if (symbol) group.append(draw("text", { class: "symbol", "font-size": fixed(1.15 * radius), dy: "0.36em" }, symbol));
  return group;
}

const CORNERS = { square: [4, 0.25], triangle: [3, 0.5], diamond: [4, 0.5], pentagon: [5, 0.5], hexagon: [6, 0.5] };

function frameOf(radius) {
  // Return half of a side of the shape around a disc.
  return 1.25 * radius + 3;
}

function drawType(type, radius) {
  // Each type of nodes has a shape around its discs, and a colour; see the legend.
  const kind = `type type-${type.place % 6}`;
  if (type.shape === "circle") return draw("circle", { class: kind, r: fixed(1.1 * radius) });
  const [count, turn] = CORNERS[type.shape];
  const far = radius / Math.cos(Math.PI / count);
  const tips = Array.from({ length: count }, (_, i) => {
    const angle = Math.PI * ((2 * i) / count - turn);
    return at([far * Math.cos(angle), far * Math.sin(angle)]);
  });
  return draw("path", { class: kind, d: `M${tips.join("L")}Z` });
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

function drawFold(data, k, score, from, point) {
  // The line to a fold is dotted: it stands for many, and is as wide as the sum of their scores.
  const width = 1.6 + 7 * Math.abs(score);
  const line = draw("path", {
    class: `edge spoke ${sign(score)}`, d: `M${at(from)}L${at(point)}`, "stroke-width": fixed(width),
    "stroke-dasharray": `0.1 ${fixed(1.5 * width + 4)}`,
  });
  const mark = draw("g", { class: "fold", transform: `translate(${at(point)})`, "data-fold": k });
  mark.append(
    draw("circle", { class: "disc", r: FOLD }), draw("circle", { class: "rim", r: FOLD, "stroke-width": 2, "stroke-dasharray": "3 3" }),
    draw("path", { class: "sign across", d: "M-6 0H6" }), draw("path", { class: "sign down", d: "M0 -6V6" }),
    draw("title", {}, data.folds[k].text),
  );
  const leader = draw("path", { class: "leader", hidden: "" });
  mark.append(leader);
  return { mark, line, leader };
}

function drawGround(data, points, rings) {
  // Rings of hops, and the link that is explained, lie below everything else.
  const ends = data.explained.map((i) => points[i]);
  const middle = [0, 1].map((axis) => ends.reduce((sum, p) => sum + p[axis], 0) / (ends.length || 1));
  const circles = rings.map((r) => draw("circle", { class: "ring", cx: fixed(middle[0]), cy: fixed(middle[1]), r: fixed(r) }));
  if (data.level === "edge" && ends.length === 2) {
    circles.push(draw("path", { class: "asked", d: `M${at(ends[0])}L${at(ends[1])}` }));
  }
  return circles;
}

const KEYS = "Arrow keys go from mark to mark, E to the next link of the chosen one, Enter opens a fold, X takes the chosen " +
  "one away or puts it back, U undoes, plus and minus zoom, 0 shows all, Escape lets go. The tables below have the same scores.";

function drawPanel(data, panel, number, height, radius) {
  const section = make("section", { class: "panel", "aria-labelledby": `panel-${number}` });
  const svg = draw("svg", {
    viewBox: `0 0 ${VIEW} ${height.toFixed(0)}`, tabindex: "0", role: "application",
    "aria-label": `${panel.title}: ${count(data.names.length, "node")}, ${count(data.edges.length, "edge")}. ${KEYS}`,
  });
  const world = draw("g");
  const stage = make("div", { class: "stage" });
  stage.style.setProperty("--ratio", VIEW / height);
  svg.append(world);
  stage.append(svg);
  const known = new Set(data.directed ? data.edges.map(([s, t]) => `${s} ${t}`) : []);
  // The weakest edges are drawn first, so that the strongest are on top.
  const order = panel.edges.map((_, i) => i).sort((i, j) => Math.abs(panel.edges[i]) - Math.abs(panel.edges[j]));
  const edges = new Array(order.length);
  order.forEach((i) => {
    const [s, t] = data.edges[i];
    const both = known.has(`${t} ${s}`);
    edges[i] = drawEdge(panel.painted.edges ? panel.edges[i] : 0, [points[s], points[t]], radius[t], data.directed, both, data.kinds?.orders?.[i]);
  });
  const folds = data.folds.map((fold, k) => {
    return drawFold(data, k, shareOf(fold, panel, number), points[fold.parent], foldPoints[k]);
  });
  const nodes = points.map((point, i) => drawNode(data, panel, i, point, radius[i]));
  for (const i of data.stars) nodes[i].append(drawStar(radius[i]));
  // A name is hidden until it has its place, so that the browser need not lay it out twice.
  const names = labels.slice(0, points.length + foldPoints.length).map((text) => draw("text", { class: "name", hidden: "" }, text));
  const arcs = draw("g", { class: "arcs" });
  world.append(
    ...drawGround(data, points, rings), ...folds.map((fold) => fold.line), ...order.map((i) => edges[i].group), arcs, ...nodes,
    ...folds.map((fold) => fold.mark), ...names,
  );
  const [head, said] = [make("div", { class: "top" }), make("div", { class: "said" })];
  head.append(make("h2", { id: `panel-${number}` }, panel.title));
  section.append(head, stage, said);
  return { section, head, said, stage, svg, world, order, edges, nodes, names, folds, arcs };
}

function describe(one, panel, alone) {
  // Write what there is to say about an explanation around its picture.
  if (!alone && panel.headline) one.head.append(make("p", { class: "line" }, panel.headline));
  if (panel.carried_text) one.said.append(make("p", { class: "line" }, sentence(panel.carried_text)));
  one.said.append(make("p", { class: "faint line" }, panel.scale), drawTrust(panel));
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

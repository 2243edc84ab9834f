// Names beside the nodes: as many as fit without covering one another, first where the weight is.
const LETTER = 11.5; // size of a name in pixels, at any zoom
const HALO = 2.6; // pixels of the outline of a name, which belongs to its box
const GAP = 4; // pixels between a mark and its name
// Names cover no node if at most FEW nodes are shown; otherwise they cover no node of relevance STRONG or more.
const FEW = 60;
const STRONG = 0.25;
const FIRST_NAMES = 10; // nodes that get their names before the folds do, but for folds that weigh more than any node
const FAR = [36, 60, 90, 130]; // pixels from the mark of a fold that weighs much to its name, if there is no room beside it
const narrow = matchMedia("(max-width: 600px)");
let pen = null; // a canvas that measures texts without drawing them

function measure(texts) {
  // Return the sizes of texts as multiples of the size of their letters. The height is that of the font, which is what a
  // browser counts as the box of a text.
  pen ??= document.createElement("canvas").getContext("2d"); // It takes a while, so it is made after the first paint.
  pen.font = `100px ${getComputedStyle(document.body).fontFamily}`;
  return texts.map((text) => {
    const size = pen.measureText(text);
    const [up, down] = [size.fontBoundingBoxAscent ?? 95, size.fontBoundingBoxDescent ?? 30];
    return { wide: size.width / 100, up: up / 100, down: down / 100 };
  });
}

function boxAround([x, y], away, size, side, room) {
  // Return the box of a name that stands at one side of a point, and where its text begins.
  const [wide, high, low] = [size.wide * room.letter, size.up * room.letter, size.down * room.letter];
  const rise = (high + low) / 2;
  const left = { start: x + away, end: x - away - wide, above: x - wide / 2, below: x - wide / 2 }[side];
  const top = { start: y - rise, end: y - rise, above: y - away - high - low, below: y + away }[side];
  const pad = HALO * room.pixel;
  return { box: [left - pad, top - pad, left + wide + pad, top + high + low + pad], x: left, y: top + high };
}

function boxesAfar([x, y], size, room) {
  // Return boxes for a name around a point but not beside it; a line leads there.
  return FAR.flatMap((far) => Array.from({ length: 12 }, (_, k) => {
    const angle = Math.PI * (k / 6 - 0.5);
    const [wide, high, pad] = [size.wide * room.letter, (size.up + size.down) * room.letter, HALO * room.pixel];
    const left = x + far * room.pixel * Math.cos(angle) - wide / 2;
    const top = y + far * room.pixel * Math.sin(angle) - high / 2;
    const box = [left - pad, top - pad, left + wide + pad, top + high + pad];
    return { box, x: left, y: top + size.up * room.letter, isFar: true };
  }));
}

const apart = (a, b) => a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];

function sidesOf(mark) {
  // Names point outwards where the picture has a middle, because edges come from there. Between both ends of a link a name
  // would seem to be of the other end.
  const [out, inwards] = mark.isLeft ? ["end", "start"] : ["start", "end"];
  return mark.always ? [out, "above", "below", inwards] : [out, inwards, "above", "below"];
}

function placeNames(marks, room) {
  // Return the place of the name of each mark that gets one. `marks` come in the order in which they are tried; a name
  // goes to one side of its mark if there is room, or else to the other, above or below.
  const obstacles = marks.filter((mark) => mark.solid).map(({ i, point: [x, y], radius: r }) => ({
    i, box: [x - r, y - r, x + r, y + r],
  }));
  const taken = [];
  const found = new Map();
  const isInside = (box) => !room.bounds || (box[0] >= 0 && box[1] >= 0 && box[2] <= VIEW && box[3] <= room.height);
  const freeOf = (others, i, box) => others.every((other) => other.i === i || apart(other.box, box));
  for (const mark of marks) {
    if (!mark.text) continue;
    const beside = (text, size) => sidesOf(mark).map((side) => (
      { text, ...boxAround(mark.point, mark.away + GAP * room.pixel, size, side, room) }
    ));
    const tries = beside(mark.text, mark.size);
    if (mark.less) tries.push(...beside(mark.less, mark.lessSize));
    if (mark.isHeavy) tries.push(...boxesAfar(mark.point, mark.lessSize, room).map((one) => ({ text: mark.less, ...one })));
    const fits = tries.filter(({ box }) => freeOf(taken, mark.i, box));
    // What is explained has a name even if that covers a node, but never if it covers another name.
    const best = fits.find(({ box }) => isInside(box) && freeOf(obstacles, mark.i, box))
      ?? (mark.always ? fits.find(({ box }) => isInside(box)) ?? fits[0] : undefined);
    if (!best) continue;
    found.set(mark.i, best);
    taken.push({ i: mark.i, box: best.box });
  }
  return found;
}

function nameSome(data, panels, marks, scale, height) {
  // Name as many marks as fit at this zoom. When the reader zooms in, more names fit.
  const pixel = VIEW / (panels[0].stage.clientWidth || 400) / scale;
  const room = { pixel, letter: LETTER * pixel, bounds: scale <= 1, height };
  const found = placeNames(marks, room);
  for (const one of panels) one.names.forEach((name, i) => {
    const spot = found.get(i);
    name.toggleAttribute("hidden", !spot);
    drawLeader(one.folds[i - points.length]?.leader, foldPoints[i - points.length], spot);
    if (spot && name.textContent !== spot.text) name.textContent = spot.text;
    if (spot) fill(name, { x: fixed(spot.x), y: fixed(spot.y), "font-size": fixed(room.letter), "stroke-width": fixed(HALO * pixel) });
  });
}

function sumOf(fold) {
  // Return what a fold adds up to, if there is one panel; several have each their own sum. On a narrow screen there would
  // be room for fewer labels with sums, and whoever touches the fold reads its sum.
  const [total] = fold.sums;
  return narrow.matches || data.panels.length > 1 || total === null || !data.panels[0].painted.edges ? "" : `, ${short(total)}`;
}

function readLabels() {
  // Return what is written at the nodes and at the folds, and then at folds where there is less room. An atom has its
  // symbol inside, and needs no other name that says the same.
  return [
    ...data.labels.map((text, i) => (data.kinds?.nodes?.[i] === text ? "" : text)),
    ...data.folds.map((fold) => `${fold.count} more${sumOf(fold)}`), ...data.folds.map((fold) => `${fold.count} more`),
  ];
}

function drawLeader(leader, [x, y] = [], spot) {
  // Draw the line from the mark of a fold to the nearest point of a name that is not beside it.
  if (!leader) return;
  leader.toggleAttribute("hidden", !spot?.isFar);
  if (!spot?.isFar) return;
  const [left, top, right, bottom] = spot.box;
  const to = [Math.min(right, Math.max(left, x)) - x, Math.min(bottom, Math.max(top, y)) - y];
  const { length, u } = towards([0, 0], to);
  if (length > FOLD) leader.setAttribute("d", `M${at([FOLD * u[0], FOLD * u[1]])}L${at(to)}`);
}

function labelAgain() {
  labels = readLabels();
  labelSizes = null;
  placeAgain();
}

function reachOf(i) {
  // Return how far a node reaches: its disc, or the shape of its type around it.
  const type = data.types[data.type_of[i]];
  if (!type) return radius[i];
  const side = type.shape === "circle" ? 1.1 : type.shape === "square" ? 1 : 1 / Math.cos(Math.PI / CORNERS[type.shape][0]);
  return side * frameOf(radius[i]);
}

function marksInOrder() {
  // Return the marks that are shown in the order in which they get names: what is explained, then where the weight is.
  labelSizes ??= measure(labels);
  const strong = (i) => data.relevance[i] >= STRONG || data.explained.includes(i);
  const isLeft = ([x]) => data.rings.length > 0 && x < VIEW / 2 - 1;
  const shown = data.label_order.filter(isShown);
  const nodes = shown.map((i) => ({
    i, text: labels[i], size: labelSizes[i], point: points[i], isLeft: isLeft(points[i]), radius: reachOf(i),
    always: data.explained.includes(i),
    // What is explained has a ring around it.
    away: Math.max(reachOf(i) + 1, radius[i] + (data.explained.includes(i) ? 7 : 1)), solid: shown.length <= FEW || strong(i),
  }));
  const weight = (k) => Math.max(...data.panels.map((panel, j) => Math.abs(shareOf(data.folds[k], panel, j))));
  const heaviest = Math.max(...foldPoints.map((_, k) => weight(k)));
  const folds = foldPoints.map((point, k) => {
    const [i, less] = [points.length + k, points.length + foldPoints.length + k];
    return {
      i, text: opened.has(k) ? "" : labels[i], size: labelSizes[i], less: labels[less], lessSize: labelSizes[less], point,
      isLeft: isLeft(point), radius: FOLD, away: FOLD, solid: true, always: false, weight: weight(k),
      isHeavy: heaviest > 0 && weight(k) === heaviest,
    };
  });
  folds.sort((a, b) => b.weight - a.weight);
  // A fold that weighs as much as the strongest link, or more, comes before the nodes.
  const many = folds.filter((fold) => fold.weight >= 1).length;
  const own = nodes.filter((node) => node.always);
  const others = nodes.filter((node) => !node.always);
  return [
    ...own, ...folds.slice(0, many), ...others.slice(0, FIRST_NAMES), ...folds.slice(many), ...others.slice(FIRST_NAMES),
  ];
}

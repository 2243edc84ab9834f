// Interactions: two marks whose effect together is not the sum of their effects apart, as arcs, on demand.
let arcsShown = false;

const hasPairs = () => data.panels.some((panel) => panel.pairs.length > 0);
// A pair of columns, of both directions of one line, or of what the page does not have, is of no two places: it has its
// sentence and no arc.
const isOnPicture = ({ first, second }) => [first, second].every((end) => end && end.column === undefined)
  && JSON.stringify(first) !== JSON.stringify(second);

function arcEnd(end) {
  // Return where an arc ends: the middle of an edge, a node, or the fold that hides it.
  const spot = (node) => (isShown(node) ? points[node] : foldPoints[foldOf[node]]);
  if (end.edge === undefined) return spot(end.node ?? end.loop ?? end.feature[0]);
  const [a, b] = data.edges[end.edge].map(spot);
  return [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
}

function drawArc(pair, most) {
  if (!isOnPicture(pair)) return draw("g");
  const [a, b] = [arcEnd(pair.first), arcEnd(pair.second)];
  const { length, u } = towards(a, b);
  const bow = 0.3 * length + 25; // Arcs between neighbouring marks are bowed enough to be seen.
  const middle = [(a[0] + b[0]) / 2 - u[1] * bow, (a[1] + b[1]) / 2 + u[0] * bow];
  const group = draw("g", { class: `arc ${sign(pair.together)}` });
  const width = 1.5 + 5 * Math.abs(pair.together) / most;
  const line = draw("path", { d: `M${at(a)}Q${at(middle)} ${at(b)}`, "stroke-width": fixed(width) });
  if (pair.together < 0) line.setAttribute("stroke-dasharray", "9 7");
  group.append(line, ...[a, b].map(([cx, cy]) => draw("circle", { cx: fixed(cx), cy: fixed(cy), r: 7 })));
  return group;
}

function listPairs(one, panel) {
  // Write a sentence for each pair; pointing at it marks its arc.
  const list = make("ol", { class: "pairs" });
  panel.pairs.forEach((pair, k) => {
    const item = make("li");
    const button = make("button", { type: "button", class: "plain" }, pair.text);
    const mark = (on) => () => one.arcs.children[k]?.classList.toggle("hot", on);
    for (const [event, on] of [["pointerenter", true], ["focus", true], ["pointerleave", false], ["blur", false]]) {
      button.addEventListener(event, mark(on));
    }
    button.addEventListener("click", () => say(pair.text));
    item.append(button);
    list.append(item);
  });
  return list;
}

function drawArcs() {
  for (const [i, panel] of data.panels.entries()) {
    const one = panels[i];
    const most = Math.max(...panel.pairs.map((pair) => Math.abs(pair.together)), 1e-12);
    one.arcs.replaceChildren(...(arcsShown ? panel.pairs.map((pair) => drawArc(pair, most)) : []));
    if (arcsShown && !one.list && panel.pairs.length) {
      one.list = listPairs(one, panel);
      one.said.append(one.list);
    }
    one.list?.toggleAttribute("hidden", !arcsShown);
  }
  by("pairs").setAttribute("aria-pressed", String(arcsShown));
}

function toggleArcs() {
  arcsShown = !arcsShown;
  drawArcs();
  say(arcsShown ? "Arcs join two marks whose effect together is not the sum of their effects apart." : "");
  keepState();
}

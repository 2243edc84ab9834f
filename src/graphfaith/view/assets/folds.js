// Folds: nodes that say little stand as one mark, which opens on a click and closes on another.
const opened = new Set(); // the folds that are open
let foldOf = []; // for each node the fold that it is in, or -1

const isShown = (node) => foldOf[node] < 0 || opened.has(foldOf[node]);
const isEdgeShown = (edge) => data.edges[edge].every(isShown);

function readFolds(data) {
  opened.clear();
  foldOf = data.names.map(() => -1);
  data.folds.forEach((fold, k) => fold.members.forEach((node) => { foldOf[node] = k; }));
}

function shareOf(fold, panel, number) {
  // Return the sum of a fold as a share of the panel's largest score, at most 1; 0 if it is not drawn.
  const sum = fold.sums[number] ?? null;
  return sum === null || !panel.edge_scale || !panel.painted.edges ? 0 : Math.max(-1, Math.min(1, sum / panel.edge_scale));
}

function foldWords(k) {
  const { text, sums, members, count } = data.folds[k];
  const them = members.length < count ? `the ${members.length} strongest of them` : "them";
  const said = data.panels.flatMap((panel, i) => (sums[i] === null ? []
    : [`${isolate(panel.title)} ${short(sums[i])}${panel.painted.edges ? "" : noted(panel, "edges")}`]));
  const together = said.length ? `, together ${said.join(", ")}` : "";
  return `${text}${together}. ${opened.has(k) ? "Click or press Enter to fold them again." : `Click or press Enter to see ${them}.`}`;
}

function toggleFold(k) {
  if (opened.has(k)) opened.delete(k);
  else opened.add(k);
  showFolds();
  if (opened.has(k)) fitAround(data.folds[k].members);
  keepState();
}

function showFolds() {
  // Show the members of open folds and hide those of the others.
  for (const one of panels) {
    one.nodes.forEach((node, i) => node.toggleAttribute("hidden", !isShown(i)));
    one.folds.forEach((fold, k) => {
      fold.mark.classList.toggle("open", opened.has(k));
      fold.line.toggleAttribute("hidden", opened.has(k));
    });
  }
  share();
  drawArcs();
  placeAgain();
}

function openFor(what) {
  // Open the folds that hide what the reader has found or chosen in a table.
  const node = what?.node ?? what?.loop;
  const nodes = node !== undefined ? [node] : what?.edge !== undefined ? data.edges[what.edge] : [];
  const closed = nodes.filter((node) => !isShown(node));
  closed.forEach((node) => opened.add(foldOf[node]));
  if (closed.length) { showFolds(); fitAround(closed); keepState(); }
}

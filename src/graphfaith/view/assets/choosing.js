// Choosing: a mark that is pointed at or chosen is marked in all panels, and its scores are told.

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

function featureWords({ name, values, absent, x }) {
  const said = data.panels.flatMap((panel, i) => (
    values[i] === null ? [] : [`${isolate(panel.title)} ${short(values[i])}${noted(panel, "features")}`]
  )).join(", ");
  const missing = absent ? " (absent here: the score says what it would do if it were there)"
    : x.length ? ` (here ${x.map((value) => short(value).replace(/^\+/, "")).join(" and ")})` : "";
  return `${isolate(name)}${missing}: ${said || "no score"}`;
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

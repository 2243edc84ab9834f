// How far to believe an explanation: how much of the model's reaction its scores explain, beside what the best scores,
// scores with pairs and the whole explanation do. A longer bar is better, and none is longer than everything.

function drawTrustBar(row, isEstimate) {
  const svg = draw("svg", { class: "track", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" });
  const reach = (value) => fixed(100 * Math.min(1, Math.max(0, value)));
  svg.append(draw("rect", { class: "ground", x: 0, y: 1, width: 100, height: 8 }));
  if (row.relative === null) return svg;
  const width = reach(1 - row.relative);
  svg.append(draw("rect", { class: `bar ${row.key}${isEstimate ? " estimate" : ""}`, x: 0, y: 1, width, height: 8 }));
  if (row.stderr) {
    const [low, high] = [reach(1 - row.relative - row.stderr), reach(1 - row.relative + row.stderr)];
    svg.append(draw("path", { class: "whisker", d: `M${low} 5H${high}` }));
  }
  return svg;
}

function drawTrust(panel) {
  const box = make("div", { class: "trust" });
  const { trust } = panel;
  if (trust === null) {
    box.append(make("p", { class: "line" }, "How much of the model\u2019s reaction this explains: not measured."));
    return box;
  }
  const rows = make("dl", { class: "rows" });
  for (const row of trust.rows) {
    const [bar, number] = [make("dd", { class: "holds" }), make("dd", { class: "number" })];
    bar.append(drawTrustBar(row, trust.estimate && row.key === "scores"));
    number.append(row.relative === null ? row.text || "not measured" : row.explained);
    if (row.relative !== null) number.append(make("span", { class: "faint" }, ` (${row.text} left)`));
    rows.append(make("dt", {}, row.name), bar, number);
  }
  box.append(make("h3", {}, "How much of the model\u2019s reaction is explained"), rows);
  if (trust.text) box.append(make("p", { class: "line faint" }, trust.text));
  return box;
}

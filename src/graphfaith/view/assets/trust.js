// How far to believe an explanation: what its scores leave unexplained, beside what any scores, pairs and the whole
// explanation leave. A shorter bar is better.
const BEYOND = 1.18; // the end of a bar, as a multiple of the whole change; what is longer is cut there

function drawTrustBar(row, isEstimate) {
  const svg = draw("svg", {
    class: "track", viewBox: `0 0 ${100 * BEYOND} 10`, preserveAspectRatio: "none", "aria-hidden": "true",
  });
  const reach = (value) => fixed(100 * Math.min(BEYOND, Math.max(0, value)));
  svg.append(draw("rect", { class: "ground", x: 0, y: 1, width: 100, height: 8 }));
  if (row.relative !== null) {
    const width = reach(Math.max(row.relative, 0.006));
    svg.append(draw("rect", { class: `bar ${row.key}${isEstimate ? " estimate" : ""}`, x: 0, y: 1, width, height: 8 }));
    if (row.stderr) {
      const [low, high] = [reach(row.relative - row.stderr), reach(row.relative + row.stderr)];
      svg.append(draw("path", { class: "whisker", d: `M${low} 5H${high}` }));
    }
  }
  svg.append(draw("line", { class: "limit", x1: 100, x2: 100, y1: 0, y2: 10 }));
  return svg;
}

function drawTrust(panel) {
  const box = make("div", { class: "trust" });
  const { trust } = panel;
  if (trust === null) {
    box.append(make("p", { class: "line" }, "How far to believe it: not measured."));
    return box;
  }
  const rows = make("dl", { class: "rows" });
  for (const row of trust.rows) {
    const bar = make("dd", { class: "holds" });
    bar.append(drawTrustBar(row, trust.estimate && row.key === "scores"));
    rows.append(make("dt", {}, row.name), bar, make("dd", { class: "number" }, row.relative === null ? "not measured" : row.text));
  }
  const scale = make("dd", { class: "axis faint" });
  scale.append(make("span", {}, "0 %"), make("span", {}, "100 %"));
  rows.append(make("dt"), scale, make("dd"));
  box.append(make("h3", {}, "Left unexplained (shorter is better)"), rows);
  if (trust.text) box.append(make("p", { class: "line faint" }, trust.text));
  return box;
}

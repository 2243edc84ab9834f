// How far to believe an explanation: one bar, as long as all of the model's reaction. Its dark part is what the scores
// explain, then what pairs add, then what the whole explanation adds; the stroke is the most that any scores could.
const STACK = ["scores", "pairs", "whole"];
const MISSING = {
  best: ["the best scores possible", "not measured"], pairs: ["with pairs", "not measured"],
  whole: ["the whole explanation", "these scores are all of it"],
};

function drawTrustBar(trust) {
  const said = trust.rows.filter((row) => row.relative !== null).map((row) => `${row.name}: ${row.explained}`).join("; ");
  const svg = draw("svg", { class: "track trust-bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img" });
  svg.setAttribute("aria-label", `Explained by ${said || "nothing: the model does not change"}`);
  const reach = (value) => 100 * Math.min(1, Math.max(0, value));
  svg.append(draw("rect", { class: `ground${trust.estimate ? " estimate" : ""}`, x: 0, y: 1, width: 100, height: 8 }));
  let done = 0;
  for (const key of STACK) {
    const row = trust.rows.find((one) => one.key === key);
    if (!row || row.relative === null) continue;
    const end = Math.max(done, reach(1 - row.relative));
    const kind = `bar ${key}${trust.estimate ? " estimate" : ""}`;
    svg.append(draw("rect", { class: kind, x: fixed(done), y: 1, width: fixed(end - done), height: 8 }));
    done = end;
  }
  const [scores, best] = ["scores", "best"].map((key) => trust.rows.find((one) => one.key === key));
  if (scores?.stderr) {
    const [low, high] = [-1, 1].map((side) => fixed(reach(1 - scores.relative + side * scores.stderr)));
    svg.append(draw("path", { class: "whisker", d: `M${low} 5H${high}` }));
  }
  if (best) svg.append(draw("path", { class: "most", d: `M${fixed(reach(1 - best.relative))} 0V10` }));
  return svg;
}

function listNumbers(trust) {
  // All four numbers, behind a fold; what was not measured says so.
  const rows = make("dl", { class: "numbers" });
  for (const key of ["scores", "best", ...STACK.slice(1)]) {
    const row = trust.rows.find((one) => one.key === key);
    const number = make("dd", { class: "number" });
    if (!row) number.append(MISSING[key][1]);
    else number.append(row.relative === null ? row.text || "not measured" : row.explained);
    if (row && row.relative !== null) number.append(make("span", { class: "faint" }, ` (${row.text} left)`));
    rows.append(make("dt", { class: `key key-${key}` }, row?.name ?? MISSING[key][0]), number);
  }
  const box = make("details");
  box.append(make("summary", {}, "All four numbers"), rows);
  return box;
}

function drawTrust(panel) {
  const box = make("div", { class: "trust" });
  const { trust } = panel;
  if (trust === null) {
    box.append(make("p", { class: "line" }, "How much of the model\u2019s reaction this explains: not measured."));
    return box;
  }
  box.append(make("h3", {}, "How much of the model\u2019s reaction is explained"), drawTrustBar(trust));
  if (trust.text) box.append(make("p", { class: "line" }, trust.text));
  if (trust.rows.some((row) => row.relative !== null)) box.append(listNumbers(trust));
  return box;
}

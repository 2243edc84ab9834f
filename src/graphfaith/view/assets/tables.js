// How far to believe each explanation, and its scores as numbers.
const BAR = 600; // units across a bar

function drawBars(data) {
  const holder = by("bars");
  const known = data.panels.filter((panel) => panel.relative !== null);
  holder.replaceChildren();
  holder.parentElement.toggleAttribute("hidden", known.length === 0);
  const error = (panel) => panel.relative_stderr ?? 0;
  const most = Math.max(1.05, ...known.map((panel) => Math.min(2, panel.relative + error(panel))));
  const reach = (value) => fixed(BAR * Math.min(1, Math.max(0, value / most)));
  for (const panel of known) {
    const svg = draw("svg", {
      viewBox: `0 0 ${BAR} 20`, preserveAspectRatio: "none", role: "img", "aria-label": `${panel.title}: ${panel.share}`,
    });
    const [low, high] = [reach(panel.relative - error(panel)), reach(panel.relative + error(panel))];
    svg.append(
      draw("rect", { class: "bar", x: 0, y: 3, width: reach(panel.relative), height: 14 }),
      draw("line", { class: "limit", x1: reach(1), x2: reach(1), y1: 0, y2: 20 }),
      draw("path", { class: "whisker", d: `M${low} 10H${high}M${low} 5V15M${high} 5V15` }),
    );
    const bar = make("dd");
    bar.append(svg);
    const beyond = panel.relative > most ? " (beyond this bar)" : "";
    holder.append(
      make("dt", {}, panel.title), bar, make("dd", {}, `${panel.share}${panel.near ? ` in ${panel.near}` : ""}${beyond}`),
    );
  }
}

function nameCell(row) {
  const cell = make("th", { scope: "row" });
  row.names.forEach((name, i) => {
    if (i) cell.append(row.arrow);
    cell.append(make("bdi", {}, name));
  });
  return cell;
}

function drawTable(id, title, heads, rows, choose) {
  const section = make("section", { "aria-labelledby": `${id}-title` });
  const caption = make("div", { class: "caption" });
  const copy = make("button", { type: "button", "aria-label": `Copy the table of ${title.toLowerCase()}` }, "Copy");
  caption.append(make("h2", { id: `${id}-title` }, title), copy);
  const holder = make("div", { class: "holder", tabindex: "0", role: "region", "aria-labelledby": `${id}-title` });
  const grid = make("table", { id });
  const head = make("tr");
  const body = make("tbody");
  const lines = rows.map((row) => {
    const line = make("tr", choose ? { tabindex: "-1" } : {});
    line.append(nameCell(row));
    for (const value of row.values) {
      line.append(make("td", { class: value === null ? "" : sign(value) }, value === null ? "" : short(value)));
    }
    if (choose) line.addEventListener("click", () => choose(row.what));
    return { row, line };
  });

  const text = (row) => row.names.join(row.arrow ?? "");
  function sort(column, cell) {
    const up = cell.getAttribute("aria-sort") === "descending";
    head.querySelectorAll("th").forEach((other) => other.setAttribute("aria-sort", "none"));
    cell.setAttribute("aria-sort", up ? "ascending" : "descending");
    const turn = up ? 1 : -1;
    const number = (row) => row.values[column - 1] ?? 0;
    lines.sort((a, b) => turn * (column === 0
      ? text(a.row).localeCompare(text(b.row), undefined, { numeric: true })
      : number(a.row) - number(b.row)));
    body.append(...lines.map((one) => one.line));
  }

  heads.forEach((name, column) => {
    const cell = make("th", { scope: "col", "aria-sort": "none" });
    const button = make("button", { type: "button" }, name);
    button.addEventListener("click", () => sort(column, cell));
    cell.append(button);
    head.append(cell);
  });
  body.append(...lines.map((one) => one.line));
  const top = make("thead");
  top.append(head);
  grid.append(top, body);
  holder.append(grid);
  section.append(caption, holder);

  // The table is one stop of the Tab key; within it, arrow keys go from row to row.
  holder.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!choose || !step || lines.length === 0) return;
    event.preventDefault();
    const now = lines.findIndex((one) => one.line === document.activeElement);
    const next = lines[Math.min(lines.length - 1, Math.max(0, now + step))];
    next.line.focus();
    choose(next.row.what);
  });
  copy.addEventListener("click", async () => {
    const table = [heads, ...lines.map(({ row }) => [text(row), ...row.values.map((value) => value ?? "")])];
    try {
      await navigator.clipboard.writeText(table.map((line) => line.join("\t")).join("\n"));
      say(`${title}: copied.`);
    } catch { // a frame or a file may not be let near the clipboard
      getSelection().selectAllChildren(grid);
      say(`${title}: selected; copy with Ctrl+C.`);
    }
  });
  const same = (a, b) => Boolean(a && b) && a.node === b.node && a.edge === b.edge;
  const mark = (what) => lines.forEach(({ row, line }) => line.classList.toggle("chosen", same(row.what, what)));
  return { section, mark };
}

function drawTables(data, choose) {
  const heads = data.panels.map((panel) => panel.title);
  const strength = (values) => Math.max(...values.map(Math.abs));
  const score = (value, scale) => (scale ? value * scale : null); // without a scale there are no scores of that kind
  const strongest = (rows) => rows.sort((a, b) => b.strength - a.strength).slice(0, data.top);
  const edges = strongest(data.edges.map(([s, t], i) => ({
    what: { edge: i }, names: [data.names[s], data.names[t]], arrow: data.directed ? " \u2192 " : " \u2013 ",
    strength: strength(data.panels.map((panel) => panel.edges[i])),
    values: data.panels.map((panel) => score(panel.edges[i], panel.edge_scale)),
  })));
  const nodes = strongest(data.names.map((name, i) => ({
    what: { node: i }, names: [name], strength: strength(data.panels.map((panel) => panel.nodes[i])),
    values: data.panels.map((panel) => score(panel.nodes[i], panel.node_scale)),
  })));
  const features = data.features.map(({ name, values }) => ({ what: null, names: [name], values }));
  const tables = [
    drawTable("edges", "Edges", ["Edge", ...heads], edges, choose),
    drawTable("nodes", "Nodes", ["Node", ...heads], nodes, choose),
  ];
  if (features.length) tables.push(drawTable("features", "Features", ["Feature", ...heads], features, null));
  by("tables").replaceChildren(...tables.map((one) => one.section));
  return tables;
}

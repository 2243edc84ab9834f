// Scores in tables that can be sorted and copied.

function nameCell(row) {
  const cell = make("th", { scope: "row" });
  row.names.forEach((name, i) => {
    if (i) cell.append(row.arrow);
    cell.append(make("bdi", {}, name));
  });
  if (row.what.loop !== undefined) cell.append(" (self-loop)");
  if (row.note) cell.append(make("span", { class: "faint" }, ` ${row.note}`));
  return cell;
}

function drawTable(id, title, heads, rows, choose, given = 0) {
  // The first `given` columns after the name are values of the data, and the others are scores.
  const section = make("section", { "aria-labelledby": `${id}-title` });
  const caption = make("div", { class: "caption" });
  const copy = make("button", { type: "button", "aria-label": `Copy the table of ${title.toLowerCase()}` }, "Copy");
  caption.append(make("h2", { id: `${id}-title` }, title), copy);
  const holder = make("div", { class: "holder", tabindex: "0", role: "region", "aria-labelledby": `${id}-title` });
  const grid = make("table", { id });
  const head = make("tr");
  const body = make("tbody");
  const lines = rows.map((row) => {
    const line = make("tr", { tabindex: "-1" });
    line.append(nameCell(row));
    row.values.forEach((value, column) => {
      const text = value === null ? "" : short(value);
      line.append(column < given ? make("td", {}, text.replace(/^\+/, "")) : make("td", { class: value === null ? "" : sign(value) }, text));
    });
    line.addEventListener("click", () => (taking ? toggleGone(row.what) : choose(row.what)));
    return { row, line };
  });

  const text = (row) => row.names.join(row.arrow ?? "") + (row.what.loop === undefined ? "" : " (self-loop)");
  function sort(column, cell) {
    const up = cell.getAttribute("aria-sort") === "descending";
    head.querySelectorAll("th").forEach((other) => other.setAttribute("aria-sort", "none"));
    cell.setAttribute("aria-sort", up ? "ascending" : "descending");
    const turn = up ? 1 : -1;
    const number = (row) => row.values[column - 1] ?? (up ? Infinity : -Infinity); // Rows without a value are last.
    lines.sort((a, b) => (column === 0
      ? turn * text(a.row).localeCompare(text(b.row), undefined, { numeric: true })
      : turn * (number(a.row) - number(b.row)) || 0));
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

  // The Tab key reaches the table as one element; inside it, the arrow keys go from row to row, and X takes away.
  holder.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const now = lines.findIndex((one) => one.line === document.activeElement);
    if (now >= 0 && isTakeKey(event)) { event.preventDefault(); toggleGone(lines[now].row.what); return; }
    if (!step || lines.length === 0) return;
    event.preventDefault();
    const next = lines[Math.min(lines.length - 1, Math.max(0, now + step))];
    next.line.focus();
    choose(next.row.what);
  });
  copy.addEventListener("click", async () => {
    const table = [heads, ...lines.map(({ row }) => [text(row), ...row.values.map((value) => value ?? "")])];
    try {
      await navigator.clipboard.writeText(table.map((line) => line.join("\t")).join("\n"));
      say(`${title}: copied.`);
    } catch { // A page in a frame or from a file may have no access to the clipboard.
      getSelection().selectAllChildren(grid);
      say(`${title}: selected; copy with Ctrl+C.`);
    }
  });
  const mark = (what) => lines.forEach(({ row, line }) => {
    const chosen = same(row.what, what);
    line.classList.toggle("chosen", chosen);
    if (chosen) line.setAttribute("aria-current", "true");
    else line.removeAttribute("aria-current");
  });
  const strike = (gone) => lines.forEach(({ row, line }) => line.classList.toggle("gone", gone.has(keyOf(row.what))));
  return { section, mark, strike };
}

function drawTables(data, choose) {
  // A column without any score needs no note.
  const heads = (kind, has) => data.panels.map((panel, i) => panel.title + (has(panel, i) ? noted(panel, kind) : ""));
  const strength = (values) => Math.max(...values.map(Math.abs));
  const score = (value, scale) => (scale ? value * scale : null); // Without a scale there are no scores of that kind.
  const strongest = (rows) => rows.sort((a, b) => b.strength - a.strength).slice(0, data.top);
  const loops = data.names.map((name, i) => ({
    what: { loop: i }, names: [name], strength: strength(data.panels.map((panel) => panel.loops[i])),
    values: data.panels.map((panel) => score(panel.loops[i], panel.edge_scale)),
  })).filter((row) => row.strength > 0);
  const edges = strongest([...loops, ...data.edges.map(([s, t], i) => ({
    what: { edge: i }, names: [data.names[s], data.names[t]], arrow: data.directed ? " \u2192 " : " \u2013 ",
    strength: strength(data.panels.map((panel) => panel.edges[i])),
    values: data.panels.map((panel) => score(panel.edges[i], panel.edge_scale)),
  }))]);
  const nodes = strongest(data.names.map((name, i) => ({
    what: { node: i }, names: [name], strength: strength(data.panels.map((panel) => panel.nodes[i])),
    values: data.panels.map((panel) => score(panel.nodes[i], panel.node_scale)),
  })));
  // A derivative by a feature that is absent is of what is not there, which has to be said beside it.
  // So the value stands beside it, of the explained node or of both ends of a link.
  const ends = data.features.some((one) => one.x.length) ? data.explained : [];
  const features = data.features.map(({ name, values, absent, x }, i) => ({
    what: { feature: i }, names: [name], values: [...ends.map((_, k) => x[k] ?? null), ...values], note: absent ? "(absent here)" : "",
  }));
  const tables = [
    drawTable("edges", "Edges", ["Edge", ...heads("edges", (panel) => panel.edge_scale)], edges, choose),
    drawTable("nodes", "Nodes", ["Node", ...heads("features", (panel) => panel.node_scale)], nodes, choose),
  ];
  if (features.length) {
    const listed = heads("features", (_, i) => data.features.some((one) => one.values[i] !== null));
    const values = ends.map((i) => (ends.length > 1 ? `Value at ${data.labels[i]}` : "Value"));
    tables.push(drawTable("features", "Features", ["Feature", ...values, ...listed], features, choose, ends.length));
  }
  by("tables").replaceChildren(...tables.map((one) => one.section));
  return tables;
}

// Comparing methods: a matrix of their agreement, and the difference of two panels.
let difference = null; // the two panels whose difference is drawn

function agreementWords(value) {
  if (value >= 0.9) return "say the same";
  if (value >= 0.6) return "say much the same";
  if (value >= 0.3) return "agree in part";
  if (value > -0.3) return "have little in common";
  return "contradict each other";
}

function sayAgreement() {
  // Say above the panels which two methods say most nearly the same, and which least.
  // Scores of links that nobody measured are not drawn, and not compared here either.
  const seen = (k) => data.panels[k].painted.edges;
  const isKnown = (i, j, value) => j > i && value !== null && seen(i) && seen(j);
  const pairs = (data.agreement ?? []).flatMap((row, i) => row.flatMap((value, j) => (isKnown(i, j, value) ? [{ i, j, value }] : [])));
  pairs.sort((a, b) => b.value - a.value);
  by("agree").toggleAttribute("hidden", pairs.length === 0);
  const ends = pairs.length > 1 ? [pairs[0], pairs[pairs.length - 1]] : pairs;
  by("agree-said").textContent = ends.map(({ i, j, value }) => {
    const [a, b] = [i, j].map((k) => isolate(data.panels[k].title));
    return `${a} and ${b} ${agreementWords(value)} (rank correlation ${value.toFixed(2).replace("-", "\u2212")})`;
  }).join("; ") + (ends.length ? "." : "");
}

function drawAgreement(data) {
  const box = by("compare");
  box.toggleAttribute("hidden", data.panels.length < 2 || !data.agreement);
  if (data.panels.length < 2 || !data.agreement) return;
  const head = make("tr");
  head.append(make("td"), ...data.panels.map((panel) => make("th", { scope: "col" }, panel.title)));
  const rows = data.panels.map((panel, i) => {
    const line = make("tr");
    line.append(make("th", { scope: "row" }, panel.title));
    data.panels.forEach((other, j) => {
      const value = data.agreement[i][j];
      const cell = make("td");
      if (i === j) cell.textContent = "";
      else {
        const text = value === null ? "\u2013" : value.toFixed(2).replace("-", "\u2212");
        const said = `${panel.title} and ${other.title}${value === null ? "" : ` ${agreementWords(value)} (${text})`}: show the difference`;
        const button = make("button", { type: "button", "aria-label": said, title: said, "data-pair": `${i}-${j}` }, text);
        if (value !== null) button.classList.add(value >= 0.6 ? "near" : value > -0.3 ? "far" : "against");
        button.addEventListener("click", () => toggleDifference(i, j));
        cell.append(button);
      }
      line.append(cell);
    });
    return line;
  });
  const table = make("table", { class: "agreement" });
  const [top, body] = [make("thead"), make("tbody")];
  top.append(head);
  body.append(...rows);
  table.append(top, body);
  by("agreement").replaceChildren(table);
  markDifference();
}

function differenceOf(i, j) {
  // Return a panel of the shares in one explanation less those in the other: scores of methods differ in their units.
  const [a, b] = [data.panels[i], data.panels[j]];
  const less = (values) => a[values].map((value, k) => value - b[values][k]);
  const edges = less("edges");
  const most = Math.max(0, ...edges.map(Math.abs));
  return {
    title: `${a.title} less ${b.title}`, explained: a.explained, nodes: less("nodes"), edges, loops: less("loops"),
    // Whoever asks for the difference of edges sees it, and reads whose were not measured.
    most, painted: { edges: true, features: a.painted.features && b.painted.features },
  };
}

function toggleDifference(i, j) {
  difference = difference && difference[0] === i && difference[1] === j ? null : [i, j];
  showDifference();
  if (difference) {
    panels[data.panels.length].section.scrollIntoView({ block: "nearest" });
    say(by("difference-said").textContent);
  } else say("");
  keepState();
}

function showDifference() {
  panels.slice(data.panels.length).forEach((one) => one.section.remove());
  panels.length = data.panels.length;
  if (difference) {
    const panel = differenceOf(...difference);
    const [a, b] = difference.map((k) => data.panels[k].title);
    const one = drawPanel(data, panel, data.panels.length, height, radius);
    const value = data.agreement[difference[0]][difference[1]];
    const correlation = value === null ? "" : value.toFixed(2).replace("-", "\u2212");
    const words = value === null ? ""
      : ` ${isolate(a)} and ${isolate(b)} ${agreementWords(value)}: their rank correlation is ${correlation}.`;
    const close = make("button", { type: "button" }, "Close");
    close.addEventListener("click", () => { toggleDifference(...difference); by("agreement").querySelector("button").focus(); });
    const most = (100 * panel.most).toFixed(0);
    const untried = difference.map((k) => data.panels[k]).filter((one) => !one.painted.edges)
      .map((one) => ` Edge scores of ${isolate(one.title)}: not measured.`).join("");
    const said = `Blue: more in ${isolate(a)}. Red: more in ${isolate(b)}. Each share of the largest score differs by at ` +
      `most ${most} %.${words}${untried}`;
    one.head.append(make("p", { class: "line", id: "difference-said" }, said), close);
    panels.push(one);
    by("panels").append(one.section);
    listen(one);
  }
  layPanels();
  markDifference();
  showFolds();
  if (!restoring) showGone(); // Else what is gone is still to be restored.
}

function markDifference() {
  for (const button of by("agreement").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(difference !== null && button.dataset.pair === difference.join("-")));
  }
}

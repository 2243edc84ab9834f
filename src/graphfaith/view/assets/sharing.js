// Sharing: what the reader has done stands in the address after #, and in a copy of the page that is saved. Nodes are
// named by their ids, so that the same address means the same in every layout.
const framed = window.parent !== window; // A notebook's frame can neither be addressed nor save a file.
let restoring = false;

function stateFields() {
  // Return what the reader has done, as the fields of an address.
  const fields = new URLSearchParams();
  const words = [...gone.values()].map((what) => {
    if (what.node !== undefined) return `n${data.ids[what.node]}`;
    if (what.loop !== undefined) return `l${data.ids[what.loop]}`;
    if (what.feature !== undefined) return `f${data.features[what.feature].column}`;
    return `e${data.edges[what.edge].map((i) => data.ids[i]).join("-")}`;
  });
  if (words.length) fields.set("gone", words.join("."));
  if (opened.size) fields.set("open", [...opened].sort((a, b) => a - b).join("."));
  if (arcsShown) fields.set("pairs", "1");
  if (difference) fields.set("less", difference.join("."));
  return fields;
}

const STATE_FIELDS = ["gone", "open", "pairs", "less"];

function readGone(text) {
  // Return what a text of an address takes away; what the page does not have is left out.
  const place = new Map(data.ids.map((id, i) => [String(id), i]));
  const edges = new Map(data.edges.map((ends, i) => [ends.map((end) => data.ids[end]).join("-"), i]));
  return text.split(".").flatMap((word) => {
    const [kind, rest] = [word[0], word.slice(1)];
    if (kind === "n" && place.has(rest)) return [{ node: place.get(rest) }];
    if (kind === "l" && place.has(rest)) return [{ loop: place.get(rest) }];
    if (kind === "e" && edges.has(rest)) return [{ edge: edges.get(rest) }];
    const row = kind === "f" ? data.features.findIndex((one) => String(one.column) === rest) : -1;
    return row >= 0 ? [{ feature: row }] : [];
  }).filter(canTake);
}

function restoreState(fields) {
  restoring = true; // Until all of it is restored, the state is not written and edges are not shown or hidden.
  const numbers = (name) => (fields.get(name) ?? "").split(".").filter(Boolean).map(Number);
  opened.clear();
  numbers("open").filter((k) => k in data.folds).forEach((k) => opened.add(k));
  arcsShown = fields.get("pairs") === "1" && hasPairs();
  const pair = numbers("less");
  difference = data.agreement && pair.length === 2 && pair[0] !== pair[1] && pair.every((k) => k in data.panels) ? pair : null;
  showDifference();
  const list = readGone(fields.get("gone") ?? "");
  if (list.length || tables.length) setGone(list, false); // At first there is nothing to put back.
  restoring = false;
  share();
}

function keepState() {
  if (restoring || framed) return;
  const kept = new URLSearchParams(location.hash.slice(1));
  STATE_FIELDS.forEach((name) => kept.delete(name));
  const text = new URLSearchParams([...kept, ...stateFields()]).toString();
  try {
    history.replaceState(null, "", text ? `#${text}` : `${location.pathname}${location.search}`);
  } catch { /* A browser may forbid this in a file; saving a copy works all the same. */ }
}

let source = null; // this page as it came

function keepSource() {
  // This is called after the first paint, and before the script changes anything. The element that the script runs in was
  // added to the page.
  document.currentScript?.remove();
  if (!framed) source = root.cloneNode(true);
}

const sourceText = () => `<!DOCTYPE html>\n${source.outerHTML}\n`;

function withState(text) {
  // Return the text of a page with the present state in its first tag. A state has no letter that HTML would read but &.
  const kept = stateFields().toString().replaceAll("&", "&amp;");
  return text.replace(/<html[^>]*>/, (tag) => tag.replace(/ data-state="[^"]*"/, "").replace(">", ` data-state="${kept}">`));
}

function download(content, type, name) {
  const link = make("a", { href: URL.createObjectURL(new Blob([content], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  say(`Saved as ${link.download}.`);
}

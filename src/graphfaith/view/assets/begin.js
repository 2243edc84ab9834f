// The beginning of the live view: the question in the address, or the one that the server starts with.
addEventListener("hashchange", () => {
  const query = new URLSearchParams(location.hash.slice(1));
  fillIn(query);
  ask(query);
});
if (location.hash.length > 1) fillIn(new URLSearchParams(location.hash.slice(1)));
else {
  const first = new URLSearchParams({ index: live.index, near: live.near });
  live.chosen.forEach((name) => first.append("method", name));
  fillIn(first);
  history.replaceState(null, "", `#${first}`);
}
ask(new URLSearchParams(location.hash.slice(1)));

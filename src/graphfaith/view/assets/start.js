// The beginning of every page. Its script is kept as text until the browser has painted what stands in the page without
// it, and only then read and run. So are the parts of the page that it fills, with their style.
function afterPaint(work) {
  // Do some work once, after the next paint. A hidden frame is not painted, so it is done after 100 ms in any case.
  let isDone = false;
  const once = () => {
    if (isDone) return;
    isDone = true;
    work();
  };
  requestAnimationFrame(() => setTimeout(once));
  setTimeout(once, 100);
}
afterPaint(() => {
  const rest = document.getElementById("rest");
  if (rest) rest.replaceWith(rest.content); // A saved copy has them in their place.
  const script = document.createElement("script");
  script.textContent = document.getElementById("code").textContent;
  document.body.append(script);
  script.remove();
});

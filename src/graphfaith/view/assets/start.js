// The beginning of every page. Its script is kept as text until the browser has painted what stands in the page without
// it, and only then read and run.
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
  const script = document.createElement("script");
  script.textContent = document.getElementById("code").textContent;
  document.body.append(script);
  script.remove();
});

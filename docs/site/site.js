/* Wide tables scroll; who has no mouse reaches them with the tabulator. The theme puts each into a box as it starts. */
const reach = () => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "Table");
  }
};
new MutationObserver(reach).observe(document.body, { childList: true, subtree: true });
reach();

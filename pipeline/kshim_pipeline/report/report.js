"use strict";
// Search: only what has the words stays. "/" goes there, and a link to what is hidden shows it again.
const box = document.getElementById("q"), found = document.getElementById("found");
const parts = [...document.querySelectorAll("[data-find]")].map(part => [part, part.textContent.toLowerCase()]);
function search() {
  const words = box.value.trim().toLowerCase();
  let count = 0;
  for (const [part, text] of parts) {
    part.hidden = !text.includes(words);
    count += !part.hidden;
  }
  for (const each of document.querySelectorAll("details"))
    if (words && each.querySelector("[data-find]:not([hidden])")) each.open = true;
  found.textContent = words ? `${count} found` : "";
}
box.parentElement.hidden = false;
box.addEventListener("input", search);
document.addEventListener("keydown", event => {
  if (event.key !== "/" || event.target === box) return;
  event.preventDefault();
  box.focus();
});
addEventListener("hashchange", () => {
  const target = document.getElementById(location.hash.slice(1));
  if (!target || !target.closest("[hidden]")) return;
  box.value = "";
  search();
  target.scrollIntoView();
});

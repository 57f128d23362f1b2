// Tenants and quotas: Esc in an open row gives the old values back; a row that closes gives the focus to what opened it.
"use strict";

const opened = new Map();  // id of a row: which of its values was opened

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  // While a row is being replaced nothing in it has the focus: then it is the one row that is open.
  const row = event.target === document.body ? document.getElementById("tree") : event.target.closest("tbody");
  row?.querySelector("[data-cancel]")?.click();
});

document.addEventListener("htmx:beforeRequest", (event) => {
  const value = event.target.closest("a.as-is"), row = value?.closest("tbody");
  if (row) opened.set(row.id, [...row.querySelectorAll("a.as-is")].indexOf(value));
});

function leave(other) {
  other.classList.remove("sel");
  other.querySelector("[aria-current]")?.removeAttribute("aria-current");
}

document.addEventListener("htmx:afterSettle", (event) => {
  const row = event.target.closest("tbody");
  if (!row || row.querySelector("form")) return;
  // the panels beside the tree are those of the row that was saved: no other row is the chosen one
  for (const other of document.querySelectorAll("#tree tr.sel")) if (!row.contains(other)) leave(other);
  row.querySelectorAll("a.as-is")[opened.get(row.id)]?.focus();
  opened.delete(row.id);
});

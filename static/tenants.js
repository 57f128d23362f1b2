// Tenants and quotas: Esc in an open row gives the old values back.
"use strict";

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") event.target.closest("tbody")?.querySelector("[data-cancel]")?.click();
});

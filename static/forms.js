// Forms: the stepper, fields that choose their radio, one submit a click. Without script every form still works.
"use strict";

function changed(field) {
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-step-by]");
  if (!button) return;
  const field = button.parentElement.querySelector("input");
  const value = Number.parseInt(field.value, 10) || 0;
  field.value = String(Math.max(1, value + Number(button.dataset.stepBy)));
  changed(field);
});

// what does not change the answer is not asked about
document.addEventListener("input", (event) => { if (event.target.matches("[data-quiet]")) event.stopPropagation(); }, true);

// an answer to what the form said before its last change would give old choices back: the answer to the new ones follows
document.addEventListener("input", (event) => { if (event.target.form?.matches("[hx-get]")) event.target.form.dataset.changed = "yes"; });
document.addEventListener("htmx:beforeRequest", (event) => { delete event.target.dataset.changed; });
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.requestConfig.elt.dataset.changed) event.detail.shouldSwap = false;
});

// an answer brings the sentences beside the fields; the fields say which of them are wrong
document.addEventListener("htmx:oobAfterSwap", (event) => {
  const told = event.detail.target.id?.startsWith("err-") && document.getElementById(event.detail.target.id);
  const field = told && document.getElementById(`f-${told.id.slice(4)}`);
  if (!field) return;
  for (const [name, value] of [["aria-invalid", "true"], ["aria-describedby", told.id]])
    if (told.hidden) field.removeAttribute(name);
    else field.setAttribute(name, value);
});

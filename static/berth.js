// Berth: theme, copy, menus, the canvas (keyboard and inspector) and the drawing of live values. No build step, no eval.
"use strict";

// ---- theme: auto | light | dark. The server renders data-theme from the cookie, so nothing flashes.
const root = document.documentElement;

function setTheme(name) {
  if (name === "auto") delete root.dataset.theme; else root.dataset.theme = name;
  document.cookie = `berth_theme=${name};path=/;max-age=31536000;samesite=lax`;
  for (const button of document.querySelectorAll("[data-set-theme]"))
    button.setAttribute("aria-pressed", String(button.dataset.setTheme === name));
}

// ---- copy: <button data-copy="#id" data-done="Copied">
async function copyFrom(button) {
  await navigator.clipboard.writeText(document.querySelector(button.dataset.copy).textContent.trim());
  const before = button.textContent;
  button.textContent = button.dataset.done;
  setTimeout(() => { button.textContent = before; }, 1500);
}

// ---- toasts: what happened, said politely; errors stay until closed
function toast(text, link) {
  const box = document.createElement("div");
  box.className = "toast";
  const words = document.createElement("span");
  words.textContent = text;
  box.append(words);
  if (link) {
    const anchor = document.createElement("a");
    anchor.className = "btn btn-s";
    anchor.href = link.href;
    anchor.textContent = link.text;
    box.append(anchor);
  }
  document.getElementById("toasts")?.replaceChildren(box);
  if (!link) setTimeout(() => box.remove(), 8000);
}

// ---- one click listener: theme, copy, close, dialogs, menus that close when left
document.addEventListener("click", (event) => {
  const on = (selector) => event.target.closest(selector);
  const theme = on("[data-set-theme]"), copy = on("[data-copy]"), opener = on("[data-open]");
  if (theme) setTheme(theme.dataset.setTheme);
  if (copy) copyFrom(copy);
  if (opener) { event.preventDefault(); document.querySelector(opener.dataset.open)?.showModal(); }
  if (on("[data-close]")) (on("dialog") ?? on(".toast"))?.[on("dialog") ? "close" : "remove"]();
  for (const menu of document.querySelectorAll("details.tenants[open], details.people[open], details.menu[open]"))
    if (!menu.contains(event.target)) menu.open = false;
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape")
    for (const menu of document.querySelectorAll("details.tenants[open], details.people[open], details.menu[open]")) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  if (event.key !== "/" || event.ctrlKey || event.metaKey || /INPUT|TEXTAREA|SELECT/.test(event.target.tagName)) return;
  const find = document.querySelector("[data-find]");
  if (find?.getClientRects().length) { event.preventDefault(); find.focus(); }
});

// ---- forms: one submit a click; the page that comes back from history may be sent again
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("[data-once]")) return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
});
window.addEventListener("pageshow", () => { for (const form of document.querySelectorAll("[data-once]")) delete form.dataset.sent; });

// ---- canvas: one tab stop, arrows move between leases, the inspector line tells what has focus
function centre(element) {
  const box = element.getBoundingClientRect();
  return { x: box.left, y: box.top + box.height / 2, top: box.top, bottom: box.bottom };
}

// left/right: the next lease in time among those that share a row; up/down: the nearest lease above or below
function neighbour(leases, from, key) {
  const here = centre(from);
  const cost = (lease) => {
    const there = centre(lease);
    const dx = there.x - here.x, dy = there.y - here.y;
    const shares = there.top < here.bottom && there.bottom > here.top;
    if (key === "ArrowRight") return shares && dx > 1 ? dx : Infinity;
    if (key === "ArrowLeft") return shares && dx < -1 ? -dx : Infinity;
    if (key === "ArrowDown") return !shares && dy > 1 ? dy * 3 + Math.abs(dx) : Infinity;
    return !shares && dy < -1 ? -dy * 3 + Math.abs(dx) : Infinity;
  };
  return leases.reduce((best, lease) => (cost(lease) < cost(best) ? lease : best), leases[leases.indexOf(from)]);
}

function inspect(canvas, lease) {
  const line = document.getElementById(canvas.dataset.canvas);
  if (!line) return;
  const words = lease.getAttribute("aria-label").split(" · ");  // one text for ear and eye
  for (const slot of line.querySelectorAll("[data-f]")) slot.textContent = words[slot.dataset.f] || "–";
  line.querySelector("use")?.setAttribute("href", `#k-${lease.classList[1]}`);
  line.querySelector("a")?.setAttribute("href", lease.getAttribute("href") || "#");
}

const wired = new WeakSet();

function wireCanvas(canvas) {
  const leases = () => [...canvas.querySelectorAll(".lease")].filter((lease) => lease.getClientRects().length);
  // without script each lease is a stop of its own
  const stops = [...canvas.querySelectorAll(".lease")];
  const kept = stops.find((lease) => lease === document.activeElement) ?? stops[0];
  for (const lease of stops) lease.setAttribute("tabindex", lease === kept ? "0" : "-1");
  if (wired.has(canvas)) return;
  wired.add(canvas);
  canvas.addEventListener("pointerover", (event) => {
    const lease = event.target.closest(".lease");
    if (lease) inspect(canvas, lease);
  });
  canvas.addEventListener("focusin", (event) => {
    const lease = event.target.closest(".lease");
    if (!lease) return;
    for (const other of leases()) other.setAttribute("tabindex", other === lease ? "0" : "-1");
    inspect(canvas, lease);
  });
  canvas.addEventListener("keydown", (event) => {
    const lease = event.target.closest(".lease");
    if (!lease || !/^Arrow|^Home$|^End$/.test(event.key)) return;
    event.preventDefault();
    const all = leases();
    const next = event.key === "Home" ? all[0] : event.key === "End" ? all[all.length - 1] : neighbour(all, lease, event.key);
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
}

// ---- live values: live.js (or a test) dispatches berth:sample {key, value, text, t}.
// value: a number; null is "not measurable"; undefined is a gap, nothing came.
const steps = new WeakMap();  // per chart: which bucket its last point stands for, and what was added up in it

function linePath(values, low, high) {
  const step = 100 / Math.max(1, values.length - 1);
  let path = "", pen = false;
  values.forEach((value, index) => {
    if (value === null) { pen = false; return; }
    const y = 31 - (Math.min(high, Math.max(low, value) - low) / (high - low || 1)) * 30;
    path += `${pen ? "L" : "M"}${(index * step).toFixed(1)} ${y.toFixed(1)}`;
    if (!pen) path += "h0";  // a lone point still shows as a dot
    pen = true;
  });
  return path;
}

function areaPath(line) {
  return line.split("M").slice(1).map((run) => {
    const xs = run.match(/[\d.]+(?= )/g);
    return `M${run}L${xs[xs.length - 1]} 32L${xs[0]} 32Z`;
  }).join("");
}

function drawSpark(svg) {
  const values = (svg.dataset.v || "").split(",").map((v) => (v === "" ? null : Number(v)));
  const path = linePath(values, Number(svg.dataset.low || 0), Number(svg.dataset.high || 100));
  svg.querySelector(".ln")?.setAttribute("d", path);
  svg.querySelector(".ar")?.setAttribute("d", areaPath(path));
  svg.classList.toggle("unmeasured", steps.get(svg)?.known === false && values.every((value) => value === null));
}

// data-step: seconds that one point stands for (default 1); the last point is the mean of its bucket so far
function pushSample(svg, value, t) {
  const step = Number(svg.dataset.step || 1), bucket = Math.floor(t / step);
  const values = (svg.dataset.v || "").split(",");
  let state = steps.get(svg);
  if (!state || state.bucket !== bucket) {
    const passed = state ? Math.min(values.length, bucket - state.bucket) : 1;
    for (let missed = 0; missed < passed; missed += 1) { values.shift(); values.push(""); }
    state = { bucket, sum: 0, count: 0, known: state?.known };
    steps.set(svg, state);
  }
  if (typeof value === "number") {
    state.sum += value;
    state.count += 1;
    values[values.length - 1] = String(Number((state.sum / state.count).toFixed(2)));
  }
  if (value !== undefined) state.known = value !== null;
  svg.dataset.v = values.join(",");
  drawSpark(svg);
}

// a driver compares two samples: in a lease's first seconds nothing is known yet, which is not "not measurable"
const FIRST_SAMPLE_S = 15;
function awaited(element, value, t) {
  const since = value === null ? element.closest("[data-since]")?.dataset.since : undefined;
  return since !== undefined && (since === "" || t - Number(since) < FIRST_SAMPLE_S);
}

document.addEventListener("berth:sample", (event) => {
  const { key, value, text } = event.detail, t = event.detail.t ?? Date.now() / 1000;
  for (const svg of document.querySelectorAll(`svg[data-live="${key}"]`)) pushSample(svg, awaited(svg, value, t) ? undefined : value, t);
  for (const slot of document.querySelectorAll(`[data-value="${key}"]`)) {
    if (value === undefined) { slot.dataset.late = "yes"; continue; }
    delete slot.dataset.late;
    const shown = awaited(slot, value, t) ? document.body.dataset.waiting : text;
    if (slot.textContent !== shown) slot.textContent = shown;
    slot.parentElement.classList.toggle("unmeasured", value === null);
  }
  if (value === undefined) return;
  for (const fill of document.querySelectorAll(`rect[data-fill="${key}"]`)) {
    fill.setAttribute("width", `${Math.min(100, value ?? 0)}%`);
    fill.parentElement.classList.toggle("unmeasured", value === null);
  }
});

// ---- morphing keeps what is alive: open menus and dialogs, followed logs, values and charts that the socket feeds
function staysAsItIs(old, next) {
  if (old.nodeType !== 1 || next.nodeType !== 1) return false;
  if (old.matches("[data-keep], dialog[open]") && old.id === next.id) return true;
  if (old.matches("[data-value]")) return old.dataset.value === next.dataset.value;
  return old.matches("svg[data-live]") && old.dataset.live === next.dataset.live && old.dataset.step === next.dataset.step;
}

if (window.Idiomorph) {  // the sign-in pages swap nothing and load none
  const { callbacks } = window.Idiomorph.defaults;
  callbacks.beforeNodeMorphed = (old, next) => !staysAsItIs(old, next);
  callbacks.beforeAttributeUpdated = (name, node) => !(name === "open" && node.matches("details"));
}

// ---- start, and again for what a swap brought
function scrollToNow(box) {
  const line = box.querySelector("[data-now-from] line");
  if (line && box.scrollWidth > box.clientWidth && !box.scrollLeft)
    box.scrollLeft = (parseFloat(line.getAttribute("x1")) / 100) * box.scrollWidth - box.clientWidth / 3;
}

function wire(within) {
  for (const canvas of within.querySelectorAll("[data-canvas]")) wireCanvas(canvas);
  for (const svg of within.querySelectorAll("svg[data-live]")) drawSpark(svg);
  for (const box of document.querySelectorAll("#toasts [data-fades]")) {
    delete box.dataset.fades;
    setTimeout(() => box.remove(), 8000);
  }
}

document.addEventListener("DOMContentLoaded", () => {
  wire(document);
  for (const box of document.querySelectorAll(".cv-in")) scrollToNow(box);
});
// a phone that is turned, or a window made narrow: what was all in view now scrolls
window.addEventListener("resize", () => { for (const box of document.querySelectorAll(".cv-in")) scrollToNow(box); });
document.addEventListener("htmx:afterSettle", (event) => wire(event.detail.elt.parentElement ?? document));
document.addEventListener("htmx:beforeSwap", (event) => {
  if (!/\/sign-in\//.test(event.detail.xhr.responseURL)) return;
  event.detail.shouldSwap = false;  // the session ended: the sign-in page never lands inside another page
  const { signedOut, signIn } = document.body.dataset;
  toast(signedOut, { text: signIn, href: `/sign-in/?next=${encodeURIComponent(location.pathname + location.search)}` });
});
for (const failure of ["htmx:responseError", "htmx:sendError", "htmx:timeout"])
  document.addEventListener(failure, () => toast(document.body.dataset.failed));

// The page's one socket: sends what is on screen, turns frames into berth:sample and facts into events of the body.
"use strict";

const LATE_MS = 5000, OFFLINE_MS = 30000, LONGEST_WAIT_MS = 30000, LOG_LINES = 1000;
const language = document.documentElement.lang, zone = document.body.dataset.zone;
const clockFormat = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZone: zone });
const minuteFormat = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: zone });
// the server's clock rules: what the page shows as now is right even where the reader's clock is not
let skewMs = Number(document.body.dataset.now) * 1000 - Date.now();
const now = () => Date.now() + skewMs;

const link = { socket: null, tries: 0, heardAt: Date.now(), sent: "", timer: null, everOpen: false, joined: false };

// ---- what the page shows: keys of data-live, data-value and data-fill, and the log that is followed
function onScreen() {
  const keys = new Set();
  for (const element of document.querySelectorAll("[data-live], [data-value], [data-fill]"))
    keys.add(element.dataset.live ?? element.dataset.value ?? element.dataset.fill);
  const follow = document.querySelector("[data-log-follow]");
  const log = document.querySelector("[data-log]");
  return { watch: [...keys], log: log && (!follow || follow.checked) ? Number(log.dataset.log) : null };
}

// the server watches subjects (l77), and sends every field of them; the page picks
function watchMessage() {
  if (document.hidden) return { watch: [], log: null };
  const { watch, log } = onScreen();
  return { watch: [...new Set(watch.map((key) => key.split(":")[0]))].sort(), log };
}

function sendWatch() {
  if (link.socket?.readyState !== WebSocket.OPEN) return;
  const message = JSON.stringify(watchMessage());
  if (message !== link.sent) link.socket.send(message);
  link.sent = message;
}

// ---- how a value reads, by the last part of its key
const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat(language, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const forms = { mem: (mib) => tenth.format(mib / 1024), memtotal: (mib) => tenth.format(mib / 1024) };

function wording(key, value) {
  if (value === undefined) return "";
  if (value === null) return document.body.dataset.notMeasurable;
  return (forms[key.split(":")[1]] ?? whole.format)(value);
}

function tell(key, value, t) {
  document.dispatchEvent(new CustomEvent("berth:sample", { detail: { key, value, t, text: wording(key, value) } }));
}

function takeFrame(frame) {
  skewMs = frame.t * 1000 - Date.now();
  for (const key of onScreen().watch) tell(key, frame.v[key], frame.t);
  join();
}

// from the first frame on no fact is missed; a part that may have changed since it was rendered asks once now
function join() {
  if (!link.joined) htmx.trigger(document.body, "joined");
  link.joined = true;
}

// ---- facts: a part that shows the thing listens for its event and fetches itself again
function takeFact(fact) {
  const name = fact.fact.replace(".", "-");
  const fire = () => {
    htmx.trigger(document.body, name, fact);
    if (fact.reservation) htmx.trigger(document.body, `${name}-${fact.reservation}`, fact);
  };
  setTimeout(fire, Math.random() * 300);  // not every reader asks in the same instant
}

// ---- log: appends while Follow is on, and stays where the reader has scrolled to
function takeLog({ log, offset, text }) {
  const box = document.querySelector(`[data-log="${log}"]`);
  if (!box || !text) return;
  const known = Number(box.dataset.offset || 0);
  const bytes = new TextEncoder().encode(text).length;
  if (offset + bytes <= known) return;
  const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
  const before = offset === known || !box.textContent ? box.textContent : offset < known ? "" : `${box.textContent}\n…\n`;
  box.textContent = (before + text).split("\n").slice(-LOG_LINES - 1).join("\n");
  box.dataset.offset = String(offset + bytes);
  box.closest("section")?.querySelector("[data-log-empty]")?.setAttribute("hidden", "");
  if (atEnd) box.scrollTop = box.scrollHeight;
}

function hear(event) {
  link.heardAt = Date.now();
  const message = JSON.parse(event.data);
  if (message.v) takeFrame(message);
  else if (message.fact) takeFact(message);
  else if (message.log) takeLog(message);
  showLink();
}

// ---- the link itself
function connect() {
  clearTimeout(link.timer);
  if (!document.body.dataset.user || link.socket?.readyState <= WebSocket.OPEN) return;
  const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/live/`);
  link.socket = socket;
  socket.addEventListener("open", () => {
    const again = link.everOpen;
    Object.assign(link, { tries: 0, sent: "", heardAt: Date.now(), everOpen: true });
    sendWatch();
    if (again) htmx.trigger(document.body, "reconnected");  // catch up by one request for what is on screen
    else if (!watchMessage().watch.length) join();
    showLink();
  });
  socket.addEventListener("message", hear);
  socket.addEventListener("close", () => {
    if (link.socket !== socket) return;
    link.tries += 1;
    const wait = Math.min(LONGEST_WAIT_MS, 500 * 2 ** link.tries) * (0.5 + Math.random() / 2);
    link.timer = setTimeout(connect, wait);
    showLink();
  });
}

function linkState() {
  const open = link.socket?.readyState === WebSocket.OPEN;
  const silent = Date.now() - link.heardAt;
  if (open && (silent < LATE_MS || document.hidden || !watchMessage().watch.length)) return "up";
  if (silent < LATE_MS) return "up";
  return silent < OFFLINE_MS ? "late" : "down";
}

function showLink() {
  const state = linkState();
  for (const pulse of document.querySelectorAll(".pulse[data-up]")) {
    if (pulse.dataset.link === state) continue;
    pulse.dataset.link = state;
    pulse.textContent = pulse.dataset[state];
  }
  const banner = document.querySelector("[data-offline]");
  if (!banner || banner.hidden === (state !== "down")) return;
  banner.querySelector("[data-offline-since]").textContent = clockFormat.format(link.heardAt + skewMs);
  banner.hidden = state !== "down";
}

// ---- time: the clock, what is left, and the now-line of each canvas move by themselves
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function moveNow() {
  const at = now();
  for (const clock of document.querySelectorAll("[data-clock] b")) setText(clock, minuteFormat.format(at));
  for (const line of document.querySelectorAll("[data-now-from]")) {
    const from = Number(line.dataset.nowFrom), until = Number(line.dataset.nowUntil);
    const share = (at / 1000 - from) / (until - from), x = `${(100 * share).toFixed(3)}%`;
    line.toggleAttribute("hidden", share < 0 || share > 1);
    for (const mark of line.querySelectorAll("line")) { mark.setAttribute("x1", x); mark.setAttribute("x2", x); }
    line.querySelector("svg")?.setAttribute("x", x);
    const label = line.querySelector("text");
    if (label) setText(label, minuteFormat.format(at));
  }
  for (const bar of document.querySelectorAll("rect[data-passed-from]")) {
    const from = Number(bar.dataset.passedFrom), until = Number(bar.dataset.passedUntil);
    bar.setAttribute("width", `${Math.min(100, Math.max(0, (100 * (at / 1000 - from)) / (until - from))).toFixed(2)}%`);
  }
}

// data-left="epoch" with the forms "{h} h {m} min", "{m} min" and "{s} s" in the page's language
function moveLeft() {
  for (const slot of document.querySelectorAll("[data-left]")) {
    const seconds = Math.max(0, Math.round(Number(slot.dataset.left) - now() / 1000));
    const { long, short, least } = slot.dataset;
    const form = seconds >= 3600 ? long : seconds >= 60 ? short : least;
    setText(slot, form.replace("{h}", Math.floor(seconds / 3600)).replace("{m}", Math.floor((seconds % 3600) / 60)).replace("{s}", seconds));
  }
}

function beat() {
  if (document.hidden) return;
  moveNow();
  moveLeft();
  showLink();
  // a link that is open and says nothing may be half of one: the next one is tried, the values keep their time
  if (linkState() === "down" && link.socket?.readyState === WebSocket.OPEN) link.socket.close();
  // nobody sends what is missing: charts get their gap from here while the link is silent
  if (link.everOpen && Date.now() - link.heardAt > LATE_MS && watchMessage().watch.length)
    for (const key of onScreen().watch) tell(key, undefined, now() / 1000);
}

document.addEventListener("visibilitychange", () => {
  link.heardAt = Date.now();
  sendWatch();
  if (!document.hidden) { connect(); beat(); htmx.trigger(document.body, "reconnected"); }
});
document.addEventListener("htmx:afterSettle", sendWatch);
document.addEventListener("change", (event) => { if (event.target.matches("[data-log-follow]")) sendWatch(); });
document.addEventListener("click", (event) => { if (event.target.closest("[data-reconnect]")) { link.tries = 0; connect(); } });
window.addEventListener("online", connect);
window.addEventListener("pagehide", () => link.socket?.close());

for (const box of document.querySelectorAll("[data-log]")) box.scrollTop = box.scrollHeight;
connect();
beat();
setInterval(beat, 1000);

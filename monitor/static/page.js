"use strict";
// The page is whole without this script, which replaces what has changed.

const byId = (id) => document.getElementById(id);
const state = byId("state");
let heard = Date.now(), answers = true;

function span(seconds) {
  if (seconds < 60) return seconds + "s";
  const h = Math.floor(seconds / 3600), m = Math.floor((seconds % 3600) / 60);
  return (h ? h + "h" : "") + m + "m" + (seconds % 60) + "s";
}

// tick says how old what is shown is, counts down, and replaces what could not be replaced before.
function tick() {
  for (const [id, html] of later) replace(id, html);
  for (const [old, cell] of pressed) {
    if (old.matches(":active")) continue;
    pressed.delete(old);
    if (old.isConnected) keeping(byId("limits"), () => old.replaceWith(cell));
  }
  const old = Math.round((Date.now() - heard) / 1000);
  state.hidden = false;
  state.className = old > 4 || !answers ? "s-stop" : "live";
  const text = old > 4 ? "nothing was heard for " + span(old) : answers ? "live" : "not current";
  if (state.textContent !== text) state.textContent = text;
  for (const node of document.querySelectorAll("[data-until]")) {
    node.textContent = span(Math.max(0, Math.round((Number(node.dataset.until) - Date.now()) / 1000)));
  }
}

// keeping changes an element. The keyboard focus stays on the same link or summary, or on the element if that is gone.
function keeping(element, change) {
  const focus = document.activeElement, held = element.contains(focus), href = focus && focus.getAttribute("href");
  const at = [...element.querySelectorAll("summary")].indexOf(focus);
  change();
  if (!held || element.contains(document.activeElement)) return;
  element.tabIndex = -1;
  const link = href && [...element.querySelectorAll("a")].find((n) => n.getAttribute("href") === href);
  (link || element.querySelectorAll("summary")[at] || element).focus({preventScroll: true});
}

const later = new Map(); // the parts in which something is being pressed: they are replaced afterwards

// replace puts a part in place.
function replace(id, html) {
  const part = byId(id), open = [...part.querySelectorAll("details")].map((d) => d.open);
  if (part.matches(":active")) return later.set(id, html);
  later.delete(id);
  keeping(part, () => {
    part.innerHTML = html;
    part.querySelectorAll("details").forEach((d, i) => { d.open = Boolean(open[i]); });
  });
}

function cellOf(html) {
  const row = document.createElement("template");
  row.innerHTML = "<table><tbody><tr>" + html + "</tr></tbody></table>";
  return row.content.querySelector("td, th");
}

const pressed = new Map(); // cells in which something is being pressed, and what is to replace them

// fill brings the rows of the list into order, and replaces the cells that have changed.
function fill(told) {
  const body = byId("limits").tBodies[0];
  const rows = new Map([...body.rows].map((tr) => [tr.dataset.id, tr]));
  told.order.forEach((id, at) => {
    let tr = rows.get(id);
    if (!tr) {
      tr = document.createElement("tr");
      tr.dataset.id = id;
    }
    rows.delete(id);
    (told.rows[id] || []).forEach((html, i) => {
      if (!html) return;
      const cell = cellOf(html), old = tr.cells[i];
      if (old && old.matches(":active")) pressed.set(old, cell); // its click is not lost
      else if (old) old.replaceWith(cell);
      else tr.append(cell);
    });
    if (body.rows[at] !== tr) body.insertBefore(tr, body.rows[at] || null);
  });
  for (const tr of rows.values()) tr.remove();
  byId("none").hidden = told.order.length > 0;
}

let source;

// listen opens the events. A page that nobody sees does not listen: over HTTP/1 a browser opens six connections to a
// server, and a seventh page would wait for ever.
function listen() {
  if (source) source.close();
  source = null;
  if (document.hidden) return;
  source = new EventSource(document.body.dataset.events);
  source.addEventListener("look", look);
}

function look(e) {
  const told = JSON.parse(e.data);
  heard = Date.now();
  answers = !told.error;
  for (const [id, html] of Object.entries(told.parts || {})) replace(id, html);
  if (told.order) keeping(byId("limits"), () => fill(told));
  tick();
}

listen();
document.addEventListener("visibilitychange", listen);
setInterval(tick, 1000);

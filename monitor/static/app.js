"use strict";
// The page is whole without this; this lets it move.

const byId = (id) => document.getElementById(id);
const state = byId("state");
let heard = Date.now();

function span(seconds) {
  if (seconds <= 0) return "-";
  if (seconds < 1) return Math.round(seconds * 1000) + "ms";
  if (seconds < 60) return Math.round(seconds * 10) / 10 + "s";
  const s = Math.round(seconds), h = Math.floor(s / 3600), m = Math.floor((s % 3600) / 60);
  return (h ? h + "h" : "") + m + "m" + (s % 60) + "s";
}

const number = (x) => String(Math.round(x * 10) / 10);

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// tellAge says how old what is shown is.
function tellAge(error) {
  const old = (Date.now() - heard) / 1000;
  const text = error ? "Redis does not answer: " + error : old > 4 ? "nothing was heard for " + span(Math.round(old)) : "live";
  setText(state, text);
  state.parentNode.classList.toggle("old", Boolean(error) || old > 4);
}

// listen follows what the server tells.
function listen(url, past, look) {
  let error = "";
  const source = new EventSource(url);
  source.addEventListener("past", (e) => past(JSON.parse(e.data)));
  source.addEventListener("look", (e) => {
    const told = JSON.parse(e.data);
    heard = Date.now();
    error = told.error || "";
    tellAge(error);
    look(told);
  });
  setInterval(() => { tellAge(error); countDown(); }, 1000);
}

// countDown moves what is left of pauses between looks.
function countDown() {
  for (const node of document.querySelectorAll("[data-until]")) {
    setText(node, span(Math.max(0, Math.round((Number(node.dataset.until) - Date.now()) / 1000))));
  }
}

// The list of limits.

const most = 180;
const history = new Map();
let lines = [];
let order = { by: "name", down: false };

function row(id) {
  const tr = document.createElement("tr");
  tr.dataset.id = id;
  for (const label of ["Name", "Limit", "Calls/s", "Last minutes", "Waiting", "Longest", "Put back", "Slots held", "Processes", "Paused"]) {
    const cell = document.createElement(label === "Name" ? "th" : "td");
    cell.dataset.label = label;
    if (["Calls/s", "Waiting", "Longest", "Put back", "Slots held", "Processes"].includes(label)) cell.className = "number";
    tr.append(cell);
  }
  const name = tr.cells[0], link = document.createElement("a");
  name.scope = "row";
  link.href = "limit?name=" + encodeURIComponent(id);
  link.textContent = id;
  name.append(link);
  tr.cells[3].className = "line";
  return tr;
}

const idOf = (l) => (l.group ? l.group + "/" : "") + l.name;

function fill(tr, l) {
  const texts = [null, l.limit + (l.set ? " (set)" : ""), number(l.perSecond), null, String(l.waiting), span(l.oldest), String(l.booked),
    l.slots ? l.held + " of " + l.slots : "-", String(l.processes)];
  texts.forEach((text, i) => { if (text !== null) setText(tr.cells[i], text); });
  const paused = tr.cells[9];
  if (l.error) {
    setText(paused, "ERROR: " + l.error);
  } else if (!l.paused) {
    setText(paused, "-");
  } else {
    let left = paused.querySelector("[data-until]");
    if (!left) {
      left = document.createElement("span");
      paused.replaceChildren(left, document.createTextNode(""));
    }
    left.dataset.until = String(Date.now() + l.pausedFor * 1000);
    setText(left, span(Math.round(l.pausedFor)));
    const why = ": " + l.reason;
    if (paused.lastChild.nodeValue !== why) paused.lastChild.nodeValue = why;
  }
  paused.classList.toggle("paused", Boolean(l.paused || l.error));
  spark(tr.cells[3], history.get(idOf(l)) || [], l.allowed);
}

const svg = "http://www.w3.org/2000/svg";

// spark draws calls per second, and what the limit allows as a dashed line.
function spark(cell, values, allowed) {
  let picture = cell.firstChild;
  if (!picture) {
    picture = document.createElementNS(svg, "svg");
    picture.setAttribute("viewBox", `0 0 ${most} 100`);
    picture.setAttribute("preserveAspectRatio", "none");
    picture.setAttribute("role", "img");
    for (const name of ["allowed", "used"]) {
      const path = document.createElementNS(svg, "path");
      path.setAttribute("class", name);
      picture.append(path);
    }
    cell.append(picture);
  }
  const top = Math.max(allowed, 1e-9, ...values) * 1.1;
  const y = (v) => (100 - (v / top) * 98).toFixed(1);
  picture.firstChild.setAttribute("d", allowed ? `M0 ${y(allowed)}H${most}` : "");
  picture.lastChild.setAttribute("d", values.length > 1 ? "M" + values.map((v, i) => `${most - values.length + i} ${y(v)}`).join("L") : "");
  picture.setAttribute("aria-label", values.length ? `${number(values[values.length - 1])} calls per second` : "nothing yet");
}

// sort puts the rows in order, and hides those that are not searched for.
function sort() {
  const body = byId("limits").tBodies[0], wanted = byId("search").value.toLowerCase();
  const value = (l) => (order.by === "name" ? idOf(l) : l[order.by] ?? 0);
  const sorted = [...lines].sort((a, b) => {
    const x = value(a), y = value(b);
    const c = typeof x === "string" ? x.localeCompare(y) : x - y;
    return (order.down ? -c : c) || idOf(a).localeCompare(idOf(b));
  });
  let shown = 0;
  sorted.forEach((l, i) => {
    const tr = rows.get(idOf(l));
    if (body.rows[i] !== tr) body.insertBefore(tr, body.rows[i] || null);
    tr.hidden = !(idOf(l) + " " + l.limit).toLowerCase().includes(wanted);
    if (!tr.hidden) shown++;
  });
  setText(byId("found"), wanted ? `${shown} of ${lines.length}` : "");
}

const rows = new Map();

function list() {
  const body = byId("limits").tBodies[0];
  for (const tr of body.rows) rows.set(tr.dataset.id, tr);
  byId("search").addEventListener("input", sort);
  for (const th of document.querySelectorAll("th[data-sort]")) {
    th.firstElementChild.addEventListener("click", () => {
      order = { by: th.dataset.sort, down: order.by === th.dataset.sort ? !order.down : !["name", "limit"].includes(th.dataset.sort) };
      for (const other of document.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      sort();
    });
  }
  listen("events", (past) => {
    history.clear();
    for (const [id, values] of Object.entries(past)) history.set(id, (values || []).slice(0, -1));
  }, (told) => {
    lines = told.limits;
    const here = new Set(lines.map(idOf));
    for (const [id, tr] of rows) {
      if (!here.has(id)) { tr.remove(); rows.delete(id); history.delete(id); }
    }
    for (const l of lines) {
      const id = idOf(l);
      if (!rows.has(id)) { rows.set(id, row(id)); body.append(rows.get(id)); }
      const values = history.get(id) || [];
      if (!told.error) values.push(l.perSecond);
      history.set(id, values.slice(-most));
      fill(rows.get(id), l);
    }
    byId("none").hidden = lines.length > 0;
    sort();
  });
}

// The page of one limit.

function limit() {
  const id = document.body.dataset.id, parts = byId("parts");
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--soft"), grid = { stroke: style.getPropertyValue("--line"), width: 1 };
  const data = [[], [], []];
  const plot = new uPlot({
    width: byId("chart").clientWidth, height: 220,
    scales: { y: { range: (_, __, top) => [0, Math.max(1, top * 1.1)] } },
    axes: [{ stroke: ink, grid, space: 90, values: (_, at) => at.map((t) => new Date(t * 1000).toLocaleTimeString([], { hour12: false })) }, { stroke: ink, grid }],
    legend: { live: false },
    series: [{}, { label: "calls/s", stroke: style.getPropertyValue("--accent"), width: 2, points: { show: false } }, { label: "allowed", stroke: ink, dash: [5, 5], points: { show: false } }],
  }, data, byId("chart"));
  addEventListener("resize", () => plot.setSize({ width: byId("chart").clientWidth, height: 220 }));
  let first = [];
  listen("events?name=" + encodeURIComponent(id), (past) => { first = (past[id] || []).slice(0, -1); }, (told) => {
    if (told.error || !told.line) return;
    const now = told.at / 1000;
    if (first.length) {
      data[0] = first.map((_, i) => now - first.length + i);
      data[1] = first;
      data[2] = first.map(() => told.line.allowed || null);
      first = [];
    }
    data[0].push(now);
    data[1].push(told.line.perSecond);
    data[2].push(told.line.allowed || null);
    for (const values of data) values.splice(0, values.length - most);
    plot.setData(data);
    setText(byId("why"), told.why);
    // Who is about to press a button there is not to lose it.
    if (!parts.contains(document.activeElement) && !parts.matches(":active")) parts.innerHTML = told.parts;
  });
}

if (document.body.dataset.page === "list") list(); else limit();

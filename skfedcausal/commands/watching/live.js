"use strict";
// The page asks for the state that comes after the one it has; the answer comes with it, or within a second.
const PAUSE = 300, AGAIN = 1000, SVG = "http://www.w3.org/2000/svg";
const place = (id) => document.getElementById(id);
let unit = null, state = null, came = 0, opened = null;

function made(name, className, text) {
  const one = document.createElement(name);
  if (className) one.className = className;
  if (text !== undefined) one.textContent = text;
  return one;
}

function drawn(name, about) {
  const one = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(about)) one.setAttribute(key, value);
  return one;
}

function inTime(seconds) {
  for (const [size, name] of [[86400, "d"], [3600, "h"], [60, "min"]])
    if (seconds >= 2 * size) return `${Math.round(seconds / size)} ${name}`;
  return `${Math.round(seconds)} s`;
}

const kindOf = (one) => one.seen ? "seen" : one.end === null ? "alarm" : "unseen";

function mood() {
  if (state === null || state.quiet) return "quiet";
  const kinds = state.incidents.map(kindOf);
  return kinds.includes("alarm") ? "alarm" : kinds.includes("unseen") ? "unseen" : "ok";
}

function showHead(reached) {
  document.body.className = reached ? mood() : "quiet";
  if (state === null) return;
  const age = state.age_s + (Date.now() - came) / 1000;
  place("summary").textContent = reached ? state.summary : "The watch itself does not answer: nothing is known of the plant now.";
  const last = state.last_row === null ? "No row has come yet." : `Last row ${state.last_row}, came ${inTime(age)} ago.`;
  place("age").textContent = state.problem ? `${last} Note: ${state.problem}.` : last;
}

function showUnits() {
  const here = place("units"), known = [...here.children];
  state.units.forEach((one, k) => {
    const button = known[k] || here.appendChild(made("button", "unit"));
    button.textContent = button.title = one.name;
    button.className = `unit ${one.state}`;
    button.setAttribute("aria-pressed", String(one.name === unit));
    button.onclick = () => { unit = one.name; showUnits(); trends(); };
  });
}

function showIncidents() {
  const rows = state.incidents.map((one) => {
    const row = made("button", `incident ${kindOf(one)}`);
    const ended = one.end === null ? "goes on" : `ended ${one.end}`;
    row.append(made("span", "", `${one.root}: began ${one.start}, ${ended}`), made("span", "", one.seen ? `seen by ${one.seen.by}` : one.kind));
    row.onclick = () => open(one.incident);
    return row;
  });
  place("incidents").replaceChildren(...(rows.length ? rows : [made("p", "", "None.")]));
  const times = state.incidents.map((one) => [Date.parse(one.start), one.end === null ? Date.now() : Date.parse(one.end), one]);
  const timed = times.filter(([begin, end]) => begin === begin && end === end);
  if (!timed.length) return place("timeline").replaceChildren();
  const first = Math.min(...timed.map((t) => t[0])), last = Math.max(...timed.map((t) => t[1]), first + 1);
  const picture = drawn("svg", { viewBox: "0 0 1000 34", preserveAspectRatio: "none", role: "img", "aria-label": "Timeline of incidents" });
  for (const [begin, end, one] of timed) {
    const x = 990 * (begin - first) / (last - first);
    const bar = drawn("rect", { x, y: 6, height: 22, width: Math.max(990 * (end - begin) / (last - first), 6), class: `bar ${kindOf(one)}` });
    bar.addEventListener("click", () => open(one.incident));
    picture.append(bar);
  }
  place("timeline").replaceChildren(picture);
}

function open(name) {
  const one = state.incidents.find((each) => each.incident === name);
  if (!one) return;
  opened = name;
  place("incident-title").textContent = `Incident in ${one.root}`;
  const facts = { began: one.start, "first alarm": one.detected, ended: one.end === null ? "goes on" : one.end, kind: one.kind,
    probability: one.probability === null ? "" : `${Math.round(100 * one.probability)} %`, repeats: one.repeats.length };
  if (one.seen) facts["acknowledged"] = `${one.seen.by}, ${one.seen.when}: ${one.seen.comment}`;
  const parts = Object.entries(facts).flatMap(([key, value]) => [made("dt", "", key), made("dd", "", String(value))]);
  if (one.report) {
    const link = made("a", "", "with the tags to look at");
    link.href = `/report?incident=${encodeURIComponent(name)}`;
    link.target = "_blank";
    const cell = made("dd", "");
    cell.append(link);
    parts.push(made("dt", "", "report"), cell);
  }
  place("incident-facts").replaceChildren(...parts);
  place("acknowledge").hidden = Boolean(one.seen);
  if (!place("incident").open) place("incident").showModal();
  if (state.units.some((each) => each.name === one.root)) { unit = one.root; trends(); }
}

async function trends() {
  if (unit === null) return;
  const told = await (await fetch(`/trend?unit=${encodeURIComponent(unit)}`)).json();
  if (told.unit !== unit) return;
  place("trend-title").textContent = `Trends of ${unit}, with the band of nominal operation`;
  const boxes = Object.entries(told.tags).map(([tag, values]) => {
    const there = values.filter((v) => v !== null), band = told.bands[tag];
    const low = Math.min(...there, band[0]), high = Math.max(...there, band[1]), size = high - low || 1;
    const y = (v) => 68 - 66 * (v - low) / size, step = 300 / Math.max(values.length - 1, 1);
    const box = made("div", "trend"), now = there.length ? there[there.length - 1].toPrecision(4) : "no value";
    const picture = drawn("svg", { viewBox: "0 0 300 70", preserveAspectRatio: "none" });
    picture.append(drawn("rect", { x: 0, y: y(band[1]), width: 300, height: Math.max(y(band[0]) - y(band[1]), 0), class: "band" }));
    let path = "", pen = "M";
    values.forEach((v, k) => { if (v === null) pen = "M"; else { path += `${pen}${(k * step).toFixed(1)},${y(v).toFixed(1)}`; pen = "L"; } });
    picture.append(drawn("path", { d: path || "M0,0", class: "row" }));
    box.append(made("b", "", `${tag} ${now}`), picture);
    return box;
  });
  place("trends").replaceChildren(...boxes);
}

async function look() {
  let pause = PAUSE;
  try {
    const answer = await fetch(`/state?after=${encodeURIComponent(state === null ? "" : state.mark)}`);
    if (!answer.ok) throw new Error(answer.statusText);
    state = await answer.json();
    came = Date.now();
    if (unit === null && state.units.length) unit = state.units[0].name;
    showHead(true);
    showUnits();
    showIncidents();
    const counts = Object.entries(state.counts).map(([key, value]) => `${key} ${value}`);
    const told = Object.entries(state.tellers).map(([name, one]) => `${name}: ${one.told} told, ${one.waiting} waiting`);
    place("counts").textContent = [...counts, ...told].join(" · ");
    await trends();
  } catch (error) {
    pause = AGAIN;
    showHead(false);
    for (const one of place("units").children) one.className = "unit quiet";
  }
  setTimeout(look, pause);
}

place("close").onclick = () => place("incident").close();
place("acknowledge").onsubmit = async (event) => {
  event.preventDefault();
  const said = { incident: opened, by: place("by").value, comment: place("comment").value };
  await fetch("/acknowledge", { method: "POST", headers: { "Content-Type": "application/json", "X-Watch": "1" }, body: JSON.stringify(said) });
  place("incident").close();
};
look();

// Keeps the page that the server has made up to date: fetches the same address again, and changes what is different.
"use strict";

const LEAST_PAUSE_MS = 60; // between two readings
const SHARE = 75; // in the long run, of so much time the server works for one part
const BURST_MS = 3000; // so much of it may be had in advance, so that what happens is shown at once
const OFTEN_MS = 2000; // lag changes without an event
const RETRY_MS = 1000;
const GATHERING_MS = 20; // events come together: one reading is for all
const PATIENCE_MS = 10000; // for an answer

const main = document.getElementById("main");
const lost = document.getElementById("lost");
const said = document.getElementById("said");
const zone = document.getElementById("zone");
const search = document.getElementById("q");

let stream = null;
let streamAddress = null;
let timer = null;
let notBefore = 0;
let paidUntil = 0;
let reading = 0;
let isReading = false;
let isMissing = false; // something happened while it was being read
let isLost = false;
let isLocal = remembered("zone") === "local";

// What is kept in this browser

function remembered(name) {
  try {
    return localStorage.getItem(`kshim-${name}`);
  } catch {
    return null;
  }
}

function remember(name, value) {
  try {
    localStorage.setItem(`kshim-${name}`, value);
  } catch {
    // Private windows may refuse; the choice then lasts as long as the page.
  }
}

// Times

function two(number) {
  return String(number).padStart(2, "0");
}

function localText(ms, isClock, isFine) {
  const at = new Date(ms);
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  if (isClock) return isFine ? `${clock}.${String(at.getMilliseconds()).padStart(3, "0")}` : clock;
  const offset = -at.getTimezoneOffset();
  const sign = offset < 0 ? "-" : "+";
  const hours = `${sign}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock}${hours}`;
}

function withTimes(root) {
  if (!isLocal) return;
  for (const each of root.querySelectorAll("[data-ms]")) {
    const isClock = ["text", "tspan"].includes(each.tagName.toLowerCase());
    each.textContent = localText(Number(each.dataset.ms), isClock, each.textContent.includes("."));
  }
}

// Changing what is different

function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  morphChildren(old, fresh);
}

function isSame(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && (old.id || "") === (fresh.id || "");
}

function morphChildren(old, fresh) {
  const mine = new Map([...old.children].filter((each) => each.id).map((each) => [each.id, each]));
  let at = old.firstChild;
  for (const each of inOrder(old, [...fresh.childNodes])) {
    const found = each.id ? mine.get(each.id) : at && isSame(at, each) ? at : null;
    if (found && isSame(found, each)) {
      if (found === at) at = at.nextSibling;
      else old.insertBefore(found, at);
      morph(found, each);
    } else {
      old.insertBefore(document.importNode(each, true), at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// Rows that somebody points at, or has the focus in, stay where they are; they are put in order afterwards.
function inOrder(old, fresh) {
  if (!old.hasAttribute("data-keyed") || !old.matches(":hover, :focus-within")) return fresh;
  const places = new Map([...old.children].map((each, place) => [each.id, place]));
  const place = (each) => places.get(each.id) ?? places.size;
  return fresh.map((each, number) => [each, place(each), number]).sort((a, b) => a[1] - b[1] || a[2] - b[2]).map((row) => row[0]);
}

function reveal(root) {
  for (const each of root.querySelectorAll("[data-post][hidden], [data-delete][hidden], #actions[hidden], #image[hidden]")) each.hidden = false;
}

// Reading

function address() {
  return location.pathname + location.search;
}

async function read() {
  timer = null;
  if (document.hidden) return;
  if (isReading) {
    isMissing = true;
    return;
  }
  const mine = ++reading;
  const asked = address();
  let answer, text;
  [isReading, isMissing] = [true, false];
  try {
    answer = await fetch(asked, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(PATIENCE_MS) });
    text = await answer.text();
  } catch {
    if (mine === reading) loose("The connection to kshim is lost.");
    return;
  } finally {
    if (mine === reading) isReading = false;
  }
  if (mine !== reading || asked !== address()) return;
  if (!(answer.headers.get("content-type") || "").startsWith("text/html")) {
    loose(`kshim answered ${answer.status}.`);
    return;
  }
  regain();
  show(new DOMParser().parseFromString(text, "text/html"));
  const took = /dur=([\d.]+)/.exec(answer.headers.get("server-timing") || "");
  const price = SHARE * (took ? Number(took[1]) : 0);
  const now = performance.now();
  paidUntil = Math.max(paidUntil, now) + price;
  notBefore = Math.max(now + LEAST_PAUSE_MS, paidUntil - BURST_MS);
  soon(isMissing ? 0 : Math.max(OFTEN_MS, 2 * price));
}

function show(page) {
  const fresh = page.getElementById("main");
  if (!fresh) return;
  reveal(fresh);
  withTimes(page);
  for (const each of fresh.querySelectorAll("details[id]")) {
    if (document.getElementById(each.id)?.open) each.open = true;
  }
  morph(main, fresh);
  for (const each of ["footer", "#now"]) {
    const part = page.querySelector(each);
    if (part) morph(document.querySelector(each), part);
  }
  document.getElementById("live").textContent = streamAddress && stream?.readyState === EventSource.OPEN ? ", live" : "";
  if (document.title !== page.title) document.title = page.title;
  follow();
}

let dueAt = Infinity;

function soon(after) {
  const at = Math.max(performance.now() + after, notBefore);
  if (timer !== null && at >= dueAt) return;
  clearTimeout(timer);
  dueAt = at;
  timer = setTimeout(read, at - performance.now());
}

function loose(reason) {
  if (!isLost) {
    isLost = true;
    const since = isLocal ? localText(Date.now(), true, false) : new Date().toISOString().slice(11, 19) + "Z";
    lost.textContent = `${reason} Since ${since} nothing new is shown; trying again every second.`;
    document.body.classList.add("lost");
    document.querySelector("#now span").textContent = "Last read at";
  }
  soon(RETRY_MS);
}

function regain() {
  if (!isLost) return;
  isLost = false;
  lost.textContent = "";
  document.body.classList.remove("lost");
  say("Connected again.");
}

// Events

function follow() {
  const wanted = main.dataset.stream || null;
  if (wanted === streamAddress && (!stream || stream.readyState !== EventSource.CLOSED)) return;
  stream?.close();
  stream = null;
  streamAddress = wanted;
  if (!wanted) return;
  stream = new EventSource(wanted);
  for (const type of main.dataset.types.split(" ")) stream.addEventListener(type, () => soon(GATHERING_MS));
  stream.onopen = () => soon(0);
  stream.onerror = () => soon(0); // it connects again by itself; reading tells whether kshim is there
}

// What people do

// What is being read is of another address.
function forget() {
  reading++;
  isReading = false;
}

function go(where, isNew) {
  const before = address();
  if (isNew) history.pushState(null, "", where);
  else history.replaceState(null, "", where);
  if (before === address()) return;
  main.setAttribute("aria-busy", "true"); // until it is shown
  forget();
  notBefore = 0;
  clearTimeout(timer);
  timer = null;
  return read();
}

document.addEventListener("click", async (event) => {
  const link = event.target.closest("a");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0) {
    const where = link.getAttribute("href") || "";
    if (where.startsWith("/page") && !link.hasAttribute("download")) {
      event.preventDefault();
      await go(where, true);
      const answer = main.querySelector(".answer") || main;
      answer.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    return;
  }
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.copy) await copy(button.dataset.copy);
  else if (button.id === "image") saveImage();
  else if (button.dataset.post) await act("POST", button.dataset.post, button.dataset.body, button.dataset.said);
  else if (button.dataset.delete) await act("DELETE", button.dataset.delete, undefined, button.dataset.said);
});

window.addEventListener("popstate", () => {
  forget();
  notBefore = 0;
  soon(0);
});

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) soon(0);
});

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input, textarea");
  if (event.key === "/" && !isTyping) {
    event.preventDefault();
    search.focus();
  }
  const turn = event.target.closest("a.turn");
  const next = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (turn && next) {
    event.preventDefault();
    const number = (each) => Number(new URL(each.href.baseVal, location).searchParams.get("rebalance"));
    const turns = [...turn.ownerSVGElement.querySelectorAll("a.turn")].sort((a, b) => number(a) - number(b));
    turns[turns.indexOf(turn) + next]?.focus();
  }
});

let typed = null;
search.addEventListener("input", () => {
  clearTimeout(typed);
  if (new URLSearchParams(location.search).has("group")) return; // Enter asks for the list
  typed = setTimeout(() => go(search.value ? `/page?q=${encodeURIComponent(search.value)}` : "/page", false), 150);
});

zone.addEventListener("click", () => {
  isLocal = !isLocal;
  remember("zone", isLocal ? "local" : "utc");
  zone.setAttribute("aria-pressed", String(isLocal));
  notBefore = 0;
  soon(0);
});

function say(words) {
  said.textContent = words;
}

async function copy(where) {
  const answer = await fetch(where);
  const text = await answer.text();
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Only secure contexts have a clipboard: elsewhere the old way.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say("Copied.");
}

// The picture as an image

const XMLNS = "http://www.w3.org/2000/svg";
const DRAWN = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-weight", "text-decoration"];
const SHARP = 2;
const MARGIN = 20;

// A copy that needs no style sheet: an image has none.
function plainCopy(original) {
  const copied = original.cloneNode(true);
  const all = [...copied.querySelectorAll("*")];
  [...original.querySelectorAll("*")].forEach((each, place) => {
    const style = getComputedStyle(each);
    for (const name of DRAWN) all[place].setAttribute(name, style.getPropertyValue(name));
  });
  for (const each of all) if (each.localName === "a") each.removeAttribute("href");
  return copied;
}

function placed(svg, left, top, width, height) {
  for (const [name, value] of Object.entries({ x: left, y: top, width, height })) svg.setAttribute(name, value);
  return svg;
}

function words(text, left, top, size, colour, isBold) {
  const line = document.createElementNS(XMLNS, "text");
  line.textContent = text;
  const look = { x: left, y: top, "font-size": size, fill: colour, "font-weight": isBold ? 700 : 400 };
  for (const [name, value] of Object.entries(look)) line.setAttribute(name, value);
  return line;
}

// The heading, who did what, the lanes and the legend, where they stand on the page.
function image() {
  const lanes = main.querySelector("svg.lanes");
  const list = main.querySelector("ul.legend");
  const look = getComputedStyle(document.documentElement);
  const [ink, quiet, paper, red] = ["--ink", "--quiet", "--paper", "--culprit"].map((name) => look.getPropertyValue(name).trim());
  const box = lanes.getBoundingClientRect();
  const said = (where) => main.querySelector(where)?.textContent.trim() || "";
  const heads = [
    [said("h1"), 20, ink, true],
    [said("#why .culprit"), 16, red, true],
    [said("#why .what") || said("#why .none"), 14, ink, false],
    [[...main.querySelectorAll("#lanes time")].map((each) => each.textContent).join(" to "), 12, quiet, false],
  ].filter((head) => head[0]);
  const whole = document.createElementNS(XMLNS, "svg");
  const width = box.width + 2 * MARGIN;
  let top = MARGIN;
  for (const [text, size, colour, isBold] of heads) {
    whole.append(words(text, MARGIN, top + size, size, colour, isBold));
    top += size * 1.5;
  }
  whole.append(placed(plainCopy(lanes), MARGIN, top, box.width, box.height));
  for (const each of list?.children ?? []) {
    const [mark, place] = [each.querySelector("svg"), each.getBoundingClientRect()];
    const [left, at] = [MARGIN + place.left - box.left, top + place.top - box.top];
    whole.append(placed(plainCopy(mark), left, at, 22, 18), words(each.textContent.trim(), left + 26, at + 14, 13, quiet, false));
  }
  const end = (list ?? lanes).getBoundingClientRect().bottom;
  const height = top + end - box.top + MARGIN;
  whole.setAttribute("font-family", "system-ui, sans-serif");
  whole.setAttribute("font-size", "12");
  placed(whole, 0, 0, width * SHARP, height * SHARP).setAttribute("viewBox", `0 0 ${width} ${height}`);
  return { text: new XMLSerializer().serializeToString(whole), width: width * SHARP, height: height * SHARP, paper };
}

function saveImage() {
  const { text, width, height, paper } = image();
  const drawn = new Image();
  drawn.onerror = () => say("This browser cannot draw it.");
  drawn.onload = () => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [width, height];
    const pen = canvas.getContext("2d");
    pen.fillStyle = paper;
    pen.fillRect(0, 0, width, height);
    pen.drawImage(drawn, 0, 0, width, height);
    canvas.toBlob((blob) => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = `${document.querySelector("h1").textContent.replace(/[^\p{L}\p{N}._-]+/gu, "_").slice(0, 60)}.png`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      say("Saved.");
    }, "image/png");
  };
  drawn.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
}

async function act(method, where, body, words) {
  try {
    const answer = await fetch(where, { method, headers: body === undefined ? {} : { "Content-Type": "application/json" }, body });
    say(answer.ok ? `${words}.` : `Refused: ${(await answer.json()).detail}`);
  } catch {
    loose("The connection to kshim is lost.");
  }
  soon(0);
}

zone.hidden = false;
zone.setAttribute("aria-pressed", String(isLocal));
reveal(document);
withTimes(document);
follow();
soon(OFTEN_MS);

// Small helpers: elements, numbers, colours, ticks, the tip, which methods are shown.

const SVG = document.getElementById("svg-root").namespaceURI;
const study = JSON.parse(document.getElementById("study").textContent);
const hidden = new Set(); // places of the methods that are toggled off

/** Return an HTML element; `style` is a mapping, "on..." attributes are listeners, children are nodes or text. */
function element(tag, attributes = {}, ...children) {
  return dress(document.createElement(tag), attributes, children);
}

/** Return an SVG element. */
function svg(tag, attributes = {}, ...children) {
  return dress(document.createElementNS(SVG, tag), attributes, children);
}

function dress(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(node.style, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Return a number with 3 significant digits, its sign as asked; a dash for what is missing. */
function told(number, signed = false) {
  if (number === null || number === undefined || !Number.isFinite(number)) return "–";
  const size = Math.abs(number);
  const text = size === 0 ? "0" : size >= 1e5 || size < 1e-4 ? number.toExponential(2) : String(+number.toPrecision(3));
  return (signed && number > 0 ? "+" : "") + text.replace("-", "−");
}

/** Return base64 as numbers of `Kind`, an array type. */
function decoded(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new Kind(bytes.buffer);
}

/** Return the largest finite magnitude, 0 where there is none. */
function reach(numbers) {
  let most = 0;
  for (const number of numbers) if (Number.isFinite(number)) most = Math.max(most, Math.abs(number));
  return most;
}

const stops = study.diverging.map((hex) => [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16)));

/** Return the red, green and blue of a share between -1 and 1; grey for NaN. */
function diverging(share) {
  if (!Number.isFinite(share)) return [187, 187, 187];
  const at = ((Math.max(-1, Math.min(1, share)) + 1) / 2) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  return stops[low].map((channel, place) => Math.round(channel + (at - low) * (stops[low + 1][place] - channel)));
}

function rgb(channels) {
  return `rgb(${channels.join(",")})`;
}

/** Return black or white, whichever contrasts more with a colour. */
function ink(channels) {
  const [r, g, b] = channels.map((c) => (c / 255 <= 0.04045 ? c / 3294.6 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  const luminance = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) ? "#000" : "#fff";
}

/** Return round numbers between low and high, about `count` of them. */
function ticks(low, high, count = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((part) => part * power).find((size) => size >= rough * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) found.push(+at.toPrecision(12));
  return found;
}

/** Return the smallest and largest finite number, widened by a share; a unit around a lone one. */
function extent(numbers, widen = 0.05) {
  const finite = numbers.filter(Number.isFinite);
  if (!finite.length) return [0, 1];
  const low = Math.min(...finite);
  const high = Math.max(...finite);
  const room = high > low ? (high - low) * widen : Math.abs(low) * 0.1 || 1;
  return [low - room, high + room];
}

/** Return a function from numbers to pixels. */
function linear([low, high], [start, end]) {
  return (number) => start + ((number - low) / (high - low)) * (end - start);
}

/** Return a method's line, mark and colour as a small drawing. */
function swatch(method) {
  const look = study.styles[method];
  return svg("svg", { width: 30, height: 12, "aria-hidden": "true" },
    svg("line", { x1: 0, x2: 30, y1: 6, y2: 6, stroke: look.color, "stroke-width": 1.8, "stroke-dasharray": look.dash }),
    mark(method, 15, 6));
}

/** Return a method's mark around a point. */
function mark(method, x, y, size = 8) {
  const look = study.styles[method];
  return svg("path", { d: look.marker, transform: `translate(${x},${y}) scale(${size})`, fill: look.color,
    stroke: look.color, "stroke-width": 1.2, "vector-effect": "non-scaling-stroke" });
}

/** Show the tip near a point of the window, with text or nodes. */
function tip(x, y, ...content) {
  const box = document.getElementById("tip");
  box.replaceChildren(...content);
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  box.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 6))}px`;
  box.style.top = `${y + 16 + height > innerHeight ? Math.max(4, y - height - 12) : y + 16}px`;
}

function untip() {
  document.getElementById("tip").hidden = true;
}

/** Return a labelled choice; `choices` are [value, text] pairs. */
function choice(label, choices, chosen, change) {
  const select = element("select", { "aria-label": label, onchange: () => change(select.value) },
    ...choices.map(([value, text]) => element("option", { value, selected: String(value) === String(chosen) }, text)));
  return element("label", {}, label, select);
}

/** Return buttons that show and hide methods in every chart of the page. */
function legend() {
  const buttons = study.methods.map((name, method) =>
    element("button", { type: "button", "data-toggle": method, "aria-pressed": String(!hidden.has(method)),
      onclick: () => toggle([method], hidden.has(method)) }, swatch(method), name));
  const all = element("button", { type: "button", onclick: () => toggle(study.methods.map((_, method) => method), true) }, "All");
  const none = element("button", { type: "button", onclick: () => toggle(study.methods.map((_, method) => method), false) }, "None");
  return element("div", { class: "legend", role: "group", "aria-label": "Methods shown in all charts" }, ...buttons, all, none);
}

function toggle(methods, show) {
  for (const method of methods) {
    if (show) hidden.delete(method);
    else hidden.add(method);
  }
  showMethods(document);
}

/** Bring what belongs to a method, below `root`, in line with what is toggled. */
function showMethods(root) {
  for (const node of root.querySelectorAll("[data-method]")) node.classList.toggle("off", hidden.has(+node.dataset.method));
  for (const node of root.querySelectorAll("[data-toggle]")) {
    node.setAttribute("aria-pressed", String(!hidden.has(+node.dataset.toggle)));
  }
}

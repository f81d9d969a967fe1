/* Elements and drawings.  Colours: blue is the positive phase, orange the negative one; they can be told apart by readers
   who cannot tell red from green, and every drawing says the same in words. */

"use strict";

/* element("p", {class: "note"}, "words", otherElement); a function among the attributes listens, as in {onclick: f}. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  made.append(...children.flat().filter(child => child != null));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

function svgElement(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.flat().filter(child => child != null));
  return made;
}

const $ = id => document.getElementById(id);

/* A canvas of (H, W) pixels whose colours are colour(i) = [r, g, b] or [r, g, b, opacity] in 0 .. 255 for pixel number i;
   `words` say what it is to readers who do not see it, "" where words beside it do. */
function canvas(height, width, colour, words = "", style = "map") {
  const made = element("canvas", { width, height, class: style, role: "img", "aria-label": words || null });
  if (!words) { made.removeAttribute("role"); made.setAttribute("aria-hidden", "true"); }
  paint(made, colour);
  return made;
}

function paint(made, colour) {
  const context = made.getContext("2d"), image = context.createImageData(made.width, made.height);
  for (let i = 0; i < made.width * made.height; i++) {
    const [r, g, b, opacity = 255] = colour(i);
    image.data.set([r, g, b, opacity], 4 * i);
  }
  context.putImageData(image, 0, 0);
}

/* A colour of the style, "--plus" or "--minus", as [r, g, b]: another one in the dark. */
function styleColour(name) {
  const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
}

/* Channel c of a map: nothing where it is 0, the full colour where it is `most`. */
function mapCanvas(map, c, most, rgb, words) {
  const strength = i => Math.min(1, Math.max(0, map.data[i * map.channels + c] / (most || 1)));
  return canvas(map.height, map.width, i => [...rgb, 255 * strength(i)], words);
}

/* Filter f as a picture: weights of three channels as colours around grey. */
function filterCanvas(w, f, words) {
  let most = 0;
  for (let i = f; i < w.data.length; i += w.filters) most = Math.max(most, Math.abs(w.data[i]));
  const value = (i, c) => 127.5 + 127.5 * w.data[(i * w.channels + c) * w.filters + f] / (most || 1);
  return canvas(w.kh, w.kw, i => [0, 1, 2].map(c => value(i, Math.min(c, w.channels - 1))), words, "filter");
}

const pictureCanvas = (bytes, words, style = "picture") =>
  canvas(32, 32, i => [bytes[3 * i], bytes[3 * i + 1], bytes[3 * i + 2]], words, style);

const percent = p => (p > 0.0995 ? (100 * p).toFixed(0) : (100 * p).toFixed(1)) + " %";
const decibels = value => (value === Infinity ? "exact" : value.toFixed(1) + " dB");

/* A list of classes with bars, the most probable first. */
function classList(probabilities, classes, count = 5) {
  const order = probabilities.map((p, i) => [p, i]).sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, count);
  return element("ol", { class: "classes" }, order.map(([p, i]) =>
    element("li", {}, element("span", { class: "name" }, classes[i]), element("span", { class: "bar" },
      element("span", { style: `width: ${(100 * p).toFixed(1)}%` })), element("span", { class: "number" }, percent(p)))));
}

/* Bars that compare numbers, drawn to one scale: [[words, value, class], ...]. */
function barTable(rows, form = v => v.toFixed(3)) {
  const most = Math.max(...rows.map(row => row[1]).filter(Number.isFinite), 1e-12);
  return element("table", { class: "bars" }, element("tbody", {}, rows.map(([words, value, kind]) =>
    element("tr", { class: kind || null }, element("th", { scope: "row" }, words),
      element("td", { class: "bar" }, element("span", { style: `width: ${Math.min(100, 100 * value / most || 0).toFixed(1)}%` })),
      element("td", { class: "number" }, Number.isFinite(value) ? form(value) : "–")))));
}

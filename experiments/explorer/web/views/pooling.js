/* What max pooling loses: the picture behind the first pool, with and without its switches; and both bounds, on a signal. */

"use strict";

const FILTERS = [[1, 2, 1], [1, 0, -1]].map(f => f.map(v => v / Math.hypot(...f)));
const LENGTH = 8; // of the signal

const poolingView = {
  start(content) {
    this.at = content.layers.findIndex(layer => layer.kind === "maxpool");
    this.before = content.layers.slice(0, this.at); // conv, CReLU, ..., the last of which the pool follows
    this.sliders = [];
    const names = ["first filter, plus", "first filter, minus", "second filter, plus", "second filter, minus"];
    for (const [i, name] of names.entries()) {
      const strength = element("input", { type: "range", min: 0, max: 2, step: 0.05, value: [1, 0.6, 0.8, 0][i],
        "aria-label": `${name}: strength`, oninput: () => this.signal() });
      const place = element("input", { type: "range", min: 0, max: LENGTH - 3, step: 1, value: [1, 4, 0, 0][i],
        "aria-label": `${name}: place`, oninput: () => this.signal() });
      this.sliders.push({ filter: Math.floor(i / 2), sign: i % 2 ? -1 : 1, strength, place });
      $("pooling-sliders").append(element("fieldset", {}, element("legend", {}, name),
        element("label", {}, "strength ", strength, element("output")), element("label", {}, "place ", place, element("output"))));
    }
    this.signal();
  },

  update(state) {
    const { content, x, bytes, found } = state;
    if (this.at < 2 || this.before.some(layer => !["conv", "crelu"].includes(layer.kind))) {
      $("pooling-picture").textContent = "This network has no pool behind CReLU layers.";
      return;
    }
    const conv = this.before[this.at - 2], pool = content.layers[this.at];
    const features = found[this.at - 1].y, { y, switches } = maxPool2d(features, pool);
    const middle = Math.floor(pool.k[0] / 2) * pool.k[1] + Math.floor(pool.k[1] / 2);
    const entered = this.at > 2 ? found[this.at - 3].y : x;
    const ways = [["with its switches", switches], ["without its switches", switches.map(() => middle)]];
    const cells = ways.map(([words, where]) => {
      const inner = throughPool(conv, pool, y, where, entered.height, entered.width);
      const picture = this.toPicture(inner);
      const shown = denormalise(picture, content);
      const note = `error ${ratio(x, picture).toFixed(3)}, ${decibels(psnr(bytes, shown))}` +
        (inner === picture ? "" : `; of the features that enter ${conv.name}, whose maps are pooled: ${ratio(entered, inner).toFixed(3)}`);
      return element("figure", {}, pictureCanvas(shown, `${words}: ${note}`),
        element("figcaption", {}, element("strong", {}, words), element("br"), note));
    });
    $("pooling-picture").replaceChildren(element("figure", {}, pictureCanvas(bytes, "the picture"),
      element("figcaption", {}, element("strong", {}, "the picture"))), ...cells);
  },

  /* Back through the layers before the one that is pooled. */
  toPicture(map) {
    for (let i = this.at - 4; i >= 0; i -= 2) {
      const conv = this.before[i], solution = leastSquares(conv, responses(map, conv), null, SIDE, SIDE, STEPS.conv1);
      for (const x of solution) map = x;
    }
    return map;
  },

  /* The signal of the sliders, what a pool over all of it keeps, what comes back, and the bounds. */
  signal() {
    for (const { strength, place } of this.sliders) {
      strength.nextElementSibling.textContent = (+strength.value).toFixed(2);
      place.nextElementSibling.textContent = place.value;
    }
    const used = this.sliders.map(({ filter, sign, strength, place }) =>
      ({ filter, shift: +place.value, c: sign * +strength.value })).filter(one => one.c !== 0);
    const x = Array.from({ length: LENGTH }, (_, i) =>
      used.reduce((sum, { filter, shift, c }) => sum + c * (FILTERS[filter][i - shift] ?? 0), 0));
    const kept = poolSignal(FILTERS, x), back = kept.length ? reconstructSignal(FILTERS, kept, LENGTH) : x.map(() => 0);
    const norm = Math.hypot(...x), error = norm ? Math.hypot(...x.map((v, i) => v - back[i])) / norm : 0;
    const bounds = used.length && norm > 1e-9 ? poolingBounds(FILTERS, used, kept, LENGTH) : { tight: 0, paper: 0 };
    $("pooling-signal").replaceChildren(this.chart(x, back));
    $("pooling-bounds").replaceChildren(barTable([["the error, ||x - x'|| / ||x||", error, "ours"],
      ["our bound, sqrt(1 - l/L)", bounds.tight], ["the paper's bound, sqrt((L - l)/l)", bounds.paper]]));
    $("pooling-words").textContent = norm <= 1e-9 ? "There is no signal: raise a strength." : bounds.paper >= 1
      ? "The paper's bound is 1 or more, so it promises nothing: x' is a projection of x, whose error is never above 1." : "";
    const places = kept.map(({ filter, sign, shift, value }) =>
      `filter ${filter + 1} ${sign > 0 ? "plus" : "minus"}: ${Math.abs(value).toFixed(2)} at place ${shift}`);
    $("pooling-kept").textContent = `Of ${2 * (LENGTH - 2)} responses (2 filters at ${LENGTH - 2} places) the pool keeps ${kept.length}: ${places.join("; ") || "nothing"}.`;
  },

  chart(x, back) {
    const most = Math.max(1, ...x.map(Math.abs), ...back.map(Math.abs)), y = v => 60 - 52 * v / most;
    const points = values => values.map((v, i) => `${20 + 40 * i},${y(v).toFixed(1)}`).join(" ");
    return svgElement("svg", { viewBox: "0 0 320 120", class: "signal", role: "img",
      "aria-label": `the signal ${x.map(v => v.toFixed(2)).join(", ")}; what comes back ${back.map(v => v.toFixed(2)).join(", ")}` },
      svgElement("line", { x1: 0, x2: 320, y1: 60, y2: 60, class: "axis" }),
      svgElement("polyline", { points: points(x), class: "plus" }), svgElement("polyline", { points: points(back), class: "minus" }),
      x.map((v, i) => svgElement("circle", { cx: 20 + 40 * i, cy: y(v), r: 4, class: "plus" })),
      back.map((v, i) => svgElement("rect", { x: 16 + 40 * i, y: y(v) - 4, width: 8, height: 8, class: "minus" })));
  },
};

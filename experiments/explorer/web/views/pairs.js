/* Filters and their pairing filters: the most opposed one of the layer, and the cosine between them. */

"use strict";

const pairsView = {
  start(content) {
    $("pairs-networks").append(...content.pairs.map(network => this.network(network)));
    $("pairs-words").textContent = this.words(content.pairs);
  },

  /* network: {label, layers: [{name, mu, mean, random}], w: filters of the first layer, partner, mu} */
  network(network) {
    const order = network.mu.map((mu, f) => [mu, f]).sort((a, b) => a[0] - b[0]).map(([, f]) => f);
    const box = element("div", { class: "pair", "aria-live": "polite" });
    const choose = f => {
      const partner = network.partner[f];
      box.replaceChildren(
        filterCanvas(network.w, f, `filter ${f + 1}`), filterCanvas(network.w, partner, `its pairing filter, ${partner + 1}`),
        element("p", {}, `Filter ${f + 1} and its pairing filter ${partner + 1}: cosine `,
          element("strong", {}, network.mu[f].toFixed(2)), network.mu[f] < -0.9 ? ", nearly exact opposites." : "."));
      buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(order[i] === f)));
    };
    const buttons = order.map(f => element("button", { class: "thumb", "aria-pressed": "false", onclick: () => choose(f),
      title: `filter ${f + 1}, cosine ${network.mu[f].toFixed(2)}` }, filterCanvas(network.w, f),
      element("span", { class: "hidden" }, `filter ${f + 1}`)));
    const more = element("button", { onclick: () => show(buttons[buttons.length - 1].hidden) });
    const show = all => {
      buttons.forEach((button, i) => { button.hidden = !all && i >= SHOWN; });
      more.textContent = all ? `Show ${SHOWN} filters` : `Show all ${buttons.length} filters`;
    };
    show(false);
    more.hidden = buttons.length <= SHOWN;
    const rows = network.layers.map(layer => element("tr", {}, element("th", { scope: "row" }, layer.name),
      element("td", {}, this.histogram(layer)), element("td", { class: "number" }, layer.mean.toFixed(3)),
      element("td", { class: "number" }, layer.random.toFixed(3))));
    const scale = element("span", { class: "scale" }, element("span", {}, "-1"), element("span", {}, "cosine"), element("span", {}, "0"));
    const heads = [["layer"], [scale], ["mean", "number"], ["random", "number"]];
    const made = element("section", { class: "network" }, element("h3", {}, network.label),
      element("p", { class: "note" }, `conv1 has ${network.mu.length} filters; the most opposed come first.`),
      element("div", { class: "thumbs" }, buttons, more), box, element("p", { class: "excess" }, this.excessWords(network)),
      element("table", {}, element("caption", {}, "How many filters have which cosine with their pairing filter"),
        element("thead", {}, element("tr", {}, heads.map(([head, kind]) => element("th", { scope: "col", class: kind }, head)))),
        element("tbody", {}, rows)));
    choose(order[0]);
    return made;
  },

  /* How much lower the cosines are than those of random filters: {first, mean over the layers}. */
  excess({ layers }) {
    const by = layers.map(layer => layer.random - layer.mean);
    return { first: by[0], mean: by.reduce((a, b) => a + b, 0) / by.length };
  },

  excessWords(network) {
    const { first, mean } = this.excess(network);
    return `More opposed than random filters: in ${network.layers[0].name} by ${first.toFixed(3)}, on average over the ` +
      `layers by ${mean.toFixed(3)}.`;
  },

  /* Do the networks of the page agree with the paper?  The last one is the CReLU network. */
  words(networks) {
    const own = networks[networks.length - 1], other = networks.find(one => one.label.startsWith("ReLU"));
    if (!other) return "";
    const [ours, theirs] = [own, other].map(one => this.excess(one));
    const agrees = theirs.first > ours.first, compared = `more opposed beyond chance than those of ${own.label}`;
    return `In this page, the filters of conv1 ${agrees ? "agree" : "do not agree"} with the paper: those of ${other.label} are ` +
      `${agrees ? "" : "not "}${compared}. On average over all layers ` +
      `${theirs.mean > ours.mean ? "they are" : "they are not"} (${theirs.mean.toFixed(3)} and ${ours.mean.toFixed(3)}).`;
  },

  /* How many filters have which cosine; a line marks what random filters of the same shape have on average. */
  histogram(layer) {
    const bins = new Array(20).fill(0);
    for (const mu of layer.mu) bins[Math.min(19, Math.max(0, Math.floor((mu + 1) * 20)))]++;
    const most = Math.max(...bins), at = 200 * (layer.random + 1);
    return svgElement("svg", { viewBox: "0 0 200 40", preserveAspectRatio: "none", class: "histogram", role: "img",
      "aria-label": `cosines of ${layer.name}: mean ${layer.mean.toFixed(2)}, of random filters ${layer.random.toFixed(2)}` },
      svgElement("line", { x1: 0, x2: 200, y1: 39.5, y2: 39.5, class: "axis" }),
      bins.map((n, i) => svgElement("rect", { x: 10 * i + 0.5, width: 9, y: 40 - 38 * n / most, height: 38 * n / most })),
      svgElement("line", { x1: at, x2: at, y1: 0, y2: 40 }));
  },
};

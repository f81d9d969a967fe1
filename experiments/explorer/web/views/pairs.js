/* Filters and their pairing filters: the most opposed one of the layer, and the cosine between them. */

"use strict";

const pairsView = {
  start(content) {
    $("pairs-networks").append(...content.pairs.map(network => this.network(network)));
  },

  /* network: {label, layers: [{name, mu, random, dimensions}], w: filters of the first layer, partner, mu} */
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
    const rows = network.layers.map(layer => element("tr", {}, element("th", { scope: "row" }, layer.name),
      element("td", {}, this.histogram(layer)), element("td", { class: "number" }, layer.mean.toFixed(3)),
      element("td", { class: "number" }, layer.random.toFixed(3))));
    const made = element("section", { class: "network" }, element("h3", {}, network.label),
      element("p", { class: "note" }, `conv1, the most opposed filters first (${network.mu.length} filters).`),
      element("div", { class: "thumbs" }, buttons), box, element("p", { class: "excess" }, this.excess(network.layers)),
      element("table", {}, element("caption", {}, "Cosine of each filter with its pairing filter, by layer"),
        element("thead", {}, element("tr", {}, ["layer", "from -1 to 0", "mean", "random"].map(head => element("th", { scope: "col" }, head)))),
        element("tbody", {}, rows)));
    choose(order[0]);
    return made;
  },

  /* How much lower the cosines are than those of random filters. */
  excess(layers) {
    const by = layers.map(layer => layer.random - layer.mean), mean = by.reduce((a, b) => a + b, 0) / by.length;
    return `More opposed than random filters: in ${layers[0].name} by ${by[0].toFixed(3)}, on average over the layers by ` +
      `${mean.toFixed(3)}.`;
  },

  /* How many filters have which cosine; a line marks what random filters of the same shape have on average. */
  histogram(layer) {
    const bins = new Array(20).fill(0);
    for (const mu of layer.mu) bins[Math.min(19, Math.max(0, Math.floor((mu + 1) * 20)))]++;
    const most = Math.max(...bins), at = 200 * (layer.random + 1);
    return svgElement("svg", { viewBox: "0 0 200 40", class: "histogram", role: "img",
      "aria-label": `cosines of ${layer.name}: mean ${layer.mean.toFixed(2)}, of random filters ${layer.random.toFixed(2)}` },
      bins.map((n, i) => svgElement("rect", { x: 10 * i + 0.5, width: 9, y: 40 - 38 * n / most, height: 38 * n / most })),
      svgElement("line", { x1: at, x2: at, y1: 0, y2: 40 }));
  },
};

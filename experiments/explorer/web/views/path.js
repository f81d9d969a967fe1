/* The path of the picture: every layer's maps, both phases of a filter side by side, and the classes at the end. */

"use strict";

const SHOWN = 24; // filters at first

const pathView = {
  chosen: null,
  all: false,

  start(content) {
    const names = content.layers.filter(layer => layer.kind === "conv").map(layer => layer.name);
    this.chosen = names[0];
    const options = names.map(name => element("label", {},
      element("input", { type: "radio", name: "layer", value: name, checked: name === this.chosen,
                         onchange: () => { this.chosen = name; this.all = false; this.show(); } }), element("span", {}, name)));
    $("path-layers").append(...options);
    $("path-all").addEventListener("click", () => { this.all = !this.all; this.show(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.show()); // the colours are others
  },

  /* `found` is what `forward` gave. */
  update(state) {
    this.state = state;
    $("path-classes").replaceChildren(classList(state.probabilities, state.content.classes));
    this.show();
  },

  show() {
    const { found } = this.state, at = found.findIndex(one => one.layer.name === this.chosen);
    const { y: z } = found[at], next = found[at + 1];
    const filters = z.channels, activation = next && next.layer.kind;
    const count = this.all ? filters : Math.min(filters, SHOWN);
    const most = new Float32Array(filters); // the strongest response of each filter
    z.data.forEach((value, i) => { most[i % filters] = Math.max(most[i % filters], Math.abs(value)); });
    const both = crelu(z), blue = styleColour("--plus"), orange = styleColour("--minus");
    const active = phase => {
      let on = 0;
      for (let i = 0; i < z.data.length; i++) on += phase * z.data[i] > 0;
      return percent(on / z.data.length);
    };
    const cells = Array.from({ length: count }, (_, f) => element("figure", { class: "phases" },
      mapCanvas(both, f, most[f], blue, `filter ${f + 1}, positive phase`),
      mapCanvas(both, filters + f, most[f], orange, `filter ${f + 1}, negative phase${activation === "relu" ? ", which the network drops" : ""}`),
      element("figcaption", {}, String(f + 1))));
    $("path-maps").replaceChildren(...cells);
    $("path-maps").classList.toggle("dropped", activation === "relu");
    const kept = {
      crelu: "CReLU passes both on.",
      relu: "ReLU passes the blue ones on and drops the orange ones, which are shown faded.",
    }[activation] ?? `No ReLU or CReLU follows ${this.chosen}: nothing is dropped.`;
    $("path-words").textContent =
      `${this.chosen}: ${filters} filters, maps of ${z.height}x${z.width}; the strongest response of each has the full colour. Positive responses (blue) at ${active(1)} of ` +
      `the places, negative ones (orange) at ${active(-1)}. ${kept}`;
    $("path-all").hidden = filters <= SHOWN;
    $("path-all").textContent = this.all ? `Show ${SHOWN} filters` : `Show all ${filters} filters`;
  },
};

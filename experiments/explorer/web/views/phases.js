/* Drop a phase: what comes back from conv1 and conv2, and what the network then says. */

"use strict";

const STEPS = { conv1: 40, conv2: 8 }; // of conjugate gradients; those of conv2 take much longer

const phasesView = {
  off: new Set(), // filters of conv1 that are switched off
  token: 0, // of the newest computation; an older one stops when it sees another

  start(content) {
    this.layers = content.layers;
    this.conv1 = content.layers[0];
    const { filters, channels } = content.layers[2].w;
    $("phases-limits").textContent = `From conv2 the page takes ${STEPS.conv2} steps of an iteration, so the picture is rougher` +
      (filters < channels ? `; and conv2 has ${filters} filters for the ${channels} numbers per pixel that enter it, so that ` +
        "some is lost there with both phases, too." : ".");
    for (const name of ["phases-plus", "phases-minus"]) $(name).addEventListener("change", () => this.show());
    $("phases-half").addEventListener("click", () => {
      const half = Array.from({ length: this.conv1.w.filters / 2 }, (_, i) => 2 * i);
      this.off = new Set(this.off.size ? [] : half);
      this.show();
    });
    $("phases-filters").append(...Array.from({ length: this.conv1.w.filters }, (_, f) =>
      element("button", { class: "thumb", "aria-pressed": "true", onclick: () => {
        if (!this.off.delete(f)) this.off.add(f);
        this.show();
      } }, filterCanvas(this.conv1.w, f), element("span", { class: "hidden" }, `filter ${f + 1}`))));
  },

  update(state) { this.state = state; this.show(); },

  keep(f, sign) { return !this.off.has(f) && $(sign > 0 ? "phases-plus" : "phases-minus").checked; },

  async show() {
    const mine = ++this.token, { content, x, bytes } = this.state;
    [...$("phases-filters").children].forEach((button, f) => button.setAttribute("aria-pressed", String(!this.off.has(f))));
    $("phases-half").textContent = this.off.size ? "Switch all filters on" : "Switch every other filter off";
    const F = this.conv1.w.filters, y = this.state.found[1].y;
    const kept = likeMap(y, y.data.map((v, i) => (this.keep(i % F, i % (2 * F) < F ? 1 : -1) ? v : 0)));
    // from conv1: the responses that are known, all at once
    const known1 = knownResponses(y, this.keep.bind(this)), each = known1.reduce((a, b) => a + b, 0) / (SIDE * SIDE);
    $("phases-words").textContent = `Known: ${each.toFixed(1)} of ${F} responses per pixel, and a pixel is 3 numbers. ` +
      (each < 3 ? "That is too little." : each < F ? "That may still be enough for conv1; conv2 sees only what is left." : "Nothing is lost.");
    const one = leastSquares(this.conv1, responses(y, this.conv1), known1, SIDE, SIDE, STEPS.conv1);
    const from1 = await this.run(one, mine);
    if (from1 === null) return;
    this.result("phases-conv1", from1, x, bytes);
    // what the network makes of the features that are left
    const rest = forward(this.layers.slice(2), kept);
    const probabilities = softmax(rest[rest.length - 1].y.data);
    $("phases-classes").replaceChildren(classList(probabilities, content.classes, 3));
    // from conv2: first what entered it, then the picture, with what is known of conv1
    const conv2 = this.layers[2], features = crelu(LAYERS.conv(kept, conv2));
    const two = leastSquares(conv2, responses(features, conv2), null, SIDE, SIDE, STEPS.conv2);
    const inner = await this.run(two, mine);
    if (inner === null) return;
    const z = responses(inner, this.conv1);
    const known = Float32Array.from({ length: z.data.length }, (_, i) => +(this.keep(i % F, 1) || this.keep(i % F, -1)));
    const from2 = await this.run(leastSquares(this.conv1, z, known, SIDE, SIDE, STEPS.conv1), mine);
    if (from2 !== null) this.result("phases-conv2", from2, x, bytes);
  },

  /* The last x of an iteration, a step at a time so that the page stays alive; null if the reader has changed his mind. */
  async run(iteration, mine) {
    let last = null, since = performance.now();
    for (const x of iteration) {
      last = x;
      if (performance.now() - since > 30) {
        await new Promise(resolve => setTimeout(resolve));
        since = performance.now();
        if (mine !== this.token) return null;
      }
    }
    return last;
  },

  result(id, estimate, x, bytes) {
    const shown = denormalise(estimate, this.state.content);
    const words = `error ${ratio(x, estimate).toFixed(3)}, ${decibels(psnr(bytes, shown))}`;
    $(id).replaceChildren(pictureCanvas(shown, `what comes back, ${words}`), element("figcaption", {}, words));
  },
};

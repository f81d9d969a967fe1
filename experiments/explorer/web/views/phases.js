/* Drop a phase: what comes back from conv1 and conv2, and what the network then says. */

"use strict";

/* Of conjugate gradients.  From exact responses conv1 comes back to the last byte, if it may take all that it needs; from
   those that conv2 gives, more steps change little; and a step of conv2 takes much longer. */
const STEPS = { exact: 400, conv1: 80, conv2: 8 };
const CLOSE = 0.02; // an error that nobody sees

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
    $("phases-all").addEventListener("click", () => { this.off.clear(); this.show(); });
    $("phases-half").addEventListener("click", () => {
      this.on().filter((_, i) => i % 2).forEach(f => this.off.add(f));
      this.show();
    });
    $("phases-filters").append(...Array.from({ length: this.conv1.w.filters }, (_, f) =>
      element("button", { class: "thumb", "aria-pressed": "true", onclick: () => {
        if (!this.off.delete(f)) this.off.add(f);
        this.show();
      } }, filterCanvas(this.conv1.w, f), element("span", { class: "hidden" }, `filter ${f + 1}`))));
  },

  update(state) { this.state = state; this.show(); },

  /* The filters that are switched on. */
  on() { return Array.from({ length: this.conv1.w.filters }, (_, f) => f).filter(f => !this.off.has(f)); },

  keep(f, sign) { return !this.off.has(f) && $(sign > 0 ? "phases-plus" : "phases-minus").checked; },

  async show() {
    const mine = ++this.token, { content, x, bytes } = this.state;
    [...$("phases-filters").children].forEach((button, f) => button.setAttribute("aria-pressed", String(!this.off.has(f))));
    $("phases-half").disabled = this.on().length < 2;
    $("phases-all").disabled = !this.off.size;
    $("phases-picture").replaceChildren(pictureCanvas(bytes, "the picture"));
    for (const id of ["phases-conv1", "phases-conv2"]) $(id).setAttribute("aria-busy", "true");
    const F = this.conv1.w.filters, y = this.state.found[1].y;
    const kept = likeMap(y, y.data.map((v, i) => (this.keep(i % F, i % (2 * F) < F ? 1 : -1) ? v : 0)));
    // what the network makes of the features that are left
    const rest = forward(this.layers.slice(2), kept);
    $("phases-classes").replaceChildren(classList(softmax(rest[rest.length - 1].y.data), content.classes, 3));
    // from conv1: the responses that are known, all at once
    const known1 = knownResponses(y, this.keep.bind(this)), each = known1.reduce((a, b) => a + b, 0) / (SIDE * SIDE);
    const said = `Known: ${each.toFixed(1)} of ${F} responses per pixel, and a pixel is 3 numbers.`;
    $("phases-words").textContent = said;
    const one = leastSquares(this.conv1, responses(y, this.conv1), known1, SIDE, SIDE, STEPS.exact);
    const from1 = await this.run(one, mine, estimate => this.result("phases-conv1", estimate, x, bytes));
    if (from1 === null) return;
    this.done("phases-conv1", from1, x, bytes);
    $("phases-words").textContent = `${said} ` + (ratio(x, from1) > CLOSE
      ? each === 0 ? "Nothing is kept, so nothing comes back; the classes are what the network says without seeing anything."
        : each < 3 ? "That is too little: some of the picture does not come back."
        : "From so few, some of the picture does not come back in the steps that this page takes."
      : each === F ? "Nothing is lost." : "The picture still comes back from so many, but the network sees only what is left.");
    // from conv2: first what entered it, then the picture, with what is known of conv1
    const conv2 = this.layers[2], features = rest[1].y;
    const two = leastSquares(conv2, responses(features, conv2), null, SIDE, SIDE, STEPS.conv2);
    const inner = await this.run(two, mine);
    if (inner === null) return;
    const z = responses(inner, this.conv1);
    const known = Float32Array.from({ length: z.data.length }, (_, i) => +(this.keep(i % F, 1) || this.keep(i % F, -1)));
    const from2 = await this.run(leastSquares(this.conv1, z, known, SIDE, SIDE, STEPS.conv1), mine);
    if (from2 !== null) this.done("phases-conv2", from2, x, bytes);
  },

  /* The last x of an iteration, a step at a time so that the page stays alive and can `show` how far it is; null if the
     reader has changed his mind. */
  async run(iteration, mine, show = () => {}) {
    let last = null, since = performance.now();
    for (const x of iteration) {
      last = x;
      if (performance.now() - since > 30) {
        show(x);
        await new Promise(resolve => setTimeout(resolve));
        since = performance.now();
        if (mine !== this.token) return null;
      }
    }
    return last;
  },

  done(id, estimate, x, bytes) {
    this.result(id, estimate, x, bytes);
    $(id).removeAttribute("aria-busy");
  },

  result(id, estimate, x, bytes) {
    const shown = denormalise(estimate, this.state.content);
    const words = `error ${ratio(x, estimate).toFixed(3)}, ${decibels(psnr(bytes, shown))}`;
    $(id).replaceChildren(pictureCanvas(shown, `what comes back, ${words}`), element("figcaption", {}, words));
  },
};

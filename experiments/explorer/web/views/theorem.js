/* The theorem that is false: a class of functions on a few points, dragged by hand, and both sides of its inequality. */

"use strict";

const CLASSES = {
  "one function, 1 and -1: the theorem fails by sqrt 2": [[1, -1]],
  "one function, 1 and 1: it holds": [[1, 1]],
  "all differences of three points": [[1, -1, 0], [1, 0, -1], [0, 1, -1]],
  "two functions on three points": [[-1, 1, 0], [-1, -1, 2]],
};

const theoremView = {
  values: [[1, -1]],

  start() {
    $("theorem-classes").append(...Object.entries(CLASSES).map(([name, values]) => element("button", {
      onclick: () => { this.values = values.map(f => [...f]); this.build(); } }, name)));
    $("theorem-function").addEventListener("click", () => { this.values.push(this.values[0].map(() => 0.5)); this.build(); });
    $("theorem-point").addEventListener("click", () => { this.values.forEach(f => f.push(0.5)); this.build(); });
    this.build();
  },

  /* A slider per function and point. */
  build() {
    const [functions, points] = [this.values.length, this.values[0].length];
    $("theorem-function").disabled = functions >= 4;
    $("theorem-point").disabled = points >= 6;
    $("theorem-sliders").replaceChildren(...this.values.map((f, i) => element("fieldset", {},
      element("legend", {}, `function ${i + 1}`), f.map((value, j) => element("label", {}, `at point ${j + 1} `,
        element("input", { type: "range", min: -2, max: 2, step: 0.05, value, oninput: event => {
          this.values[i][j] = +event.target.value;
          event.target.nextElementSibling.textContent = (+event.target.value).toFixed(2);
          this.show();
        } }), element("output", {}, value.toFixed(2)))))));
    this.show();
  },

  show() {
    const found = complexities(this.values), points = this.values[0].length;
    const over = found.crelu > found.identity * (1 + 1e-12);
    $("theorem-result").replaceChildren(barTable([
      ["the complexity of the CReLU layer", found.crelu, over ? "wrong" : "ours"],
      ["the paper's bound, R(F)", found.identity],
      ["a bound that holds, (R(F) + R(|F|)) / sqrt 2; |F|: absolute values", (found.identity + found.avr) / Math.SQRT2],
      ["and never more than sqrt 3 R(F)", Math.sqrt(3) * found.identity]]));
    const negative = this.values.some(values => values.some(v => v < 0));
    const quotient = found.identity ? (found.crelu / found.identity).toFixed(4) : "–";
    $("theorem-words").textContent = found.identity === 0 && found.crelu === 0 ? "All functions are 0." : over
      ? `The theorem is false here: the complexity is ${quotient} times the paper's bound, exactly, over all ${2 ** points} sign vectors.`
      : `The inequality holds here: the complexity is ${quotient} times the paper's bound. ` + (negative
        ? "A counterexample needs a function with values of both signs, but not every such class is one."
        : "Drag a value below 0.");
  },
};

/* The mean share of a vector that a random subspace holds, beside the paper's sqrt(s / D). */
const subspaceView = {
  start() {
    for (const name of ["subspace-s", "subspace-d"]) $(name).addEventListener("input", () => this.show());
    this.show();
  },

  show() {
    const D = +$("subspace-d").value, s = Math.min(+$("subspace-s").value, D), mean = meanRatio(s, D), root = Math.sqrt(s / D);
    $("subspace-numbers").textContent = `s = ${s}, D = ${D}`;
    $("subspace-result").replaceChildren(barTable([["the mean of ||x_s|| / ||x||, exactly", mean, "ours"],
      ["the paper's sqrt(s/D)", root]], v => v.toFixed(5)));
    $("subspace-words").textContent = s === D ? "The subspace is everything: both are 1."
      : `The paper's value is too large by ${(100 * (root / mean - 1)).toFixed(2)} %: it is the root of the mean of the squares, s/D, and the mean of the roots is smaller.`;
  },
};

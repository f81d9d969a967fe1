/* The page: its content, the picture that is chosen, and the views, each of which shows it in its own way. */

"use strict";

/* The arrays of the content are parts of one block of bytes. */
function unpackContent() {
  const content = JSON.parse($("content").textContent);
  const text = atob($("arrays").textContent.replace(/\s/g, "")), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const unpack = value => {
    if (Array.isArray(value)) return value.map(unpack);
    if (value === null || typeof value !== "object") return value;
    if ("float32" in value) return new Float32Array(bytes.buffer, ...value.float32);
    if ("uint8" in value) return new Uint8Array(bytes.buffer, ...value.uint8);
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, unpack(one)]));
  };
  return unpack(content);
}

const page = {
  views: [pathView, phasesView, poolingView],
  picture: 0, // the number of the newest one

  start() {
    this.content = unpackContent();
    for (const view of [...this.views, theoremView, subspaceView]) view.start(this.content);
    $("pictures").append(...this.content.images.map(({ name, pixels }, i) => element("button", { class: "thumb",
      "aria-pressed": String(i === 0), title: name, onclick: event => this.choose(pixels, name, event.currentTarget) },
      pictureCanvas(pixels, "", "small"), element("span", { class: "hidden" }, name))));
    $("file").addEventListener("change", event => this.read(event.target.files[0]));
    $("camera").addEventListener("click", () => this.photograph());
    $("camera").hidden = !navigator.mediaDevices || !navigator.mediaDevices.getUserMedia;
    addEventListener("dragover", event => event.preventDefault());
    addEventListener("drop", event => { event.preventDefault(); this.read(event.dataTransfer.files[0]); });
    addEventListener("paste", event => {
      const file = [...event.clipboardData.items].map(item => item.getAsFile()).find(Boolean);
      if (file) this.read(file); else this.say("There is no picture in the clipboard.");
    });
    this.choose(this.content.images[0].pixels, this.content.images[0].name, $("pictures").firstElementChild);
    setTimeout(() => pairsView.start(this.content)); // many drawings, when the picture is there
  },

  say(words) { $("message").textContent = words; },

  /* A file of the reader's; the picture that was there stays if this one cannot be read. */
  async read(file) {
    if (!file) { this.say("Nothing was dropped that is a file."); return; }
    try {
      await this.choose(await readPicture(file), file.name || "your picture");
    } catch (error) {
      this.say(error.message);
    }
  },

  async photograph() {
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ video: true });
      const video = element("video", { autoplay: true, muted: true });
      video.srcObject = stream;
      await new Promise(resolve => video.addEventListener("loadeddata", resolve));
      const bytes = squareBytes(video, video.videoWidth, video.videoHeight);
      stream.getTracks().forEach(track => track.stop());
      this.choose(bytes, "a photograph");
    } catch {
      this.say("The camera cannot be used here. Choose a file instead.");
    }
  },

  /* The classes and the maps at once, the other views after them, one at a time, so that the page stays alive. */
  async choose(bytes, name, button = null) {
    const mine = ++this.picture;
    for (const one of $("pictures").children) one.setAttribute("aria-pressed", String(one === button));
    $("chosen").replaceChildren(pictureCanvas(bytes, name), element("figcaption", {}, name));
    this.say("");
    const since = performance.now(), x = normalise(bytes, this.content), found = forward(this.content.layers, x);
    const probabilities = softmax(found[found.length - 1].y.data);
    this.state = { content: this.content, bytes, x, found, probabilities };
    $("took").textContent = `The network took ${Math.round(performance.now() - since)} ms in this page.`;
    for (const view of this.views) {
      view.update(this.state);
      await new Promise(resolve => setTimeout(resolve));
      if (mine !== this.picture) return;
    }
  },
};

page.start();

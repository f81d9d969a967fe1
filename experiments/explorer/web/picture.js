/* The reader's picture: a file, the clipboard, the camera, or one of those that come with the page; always 32x32. */

"use strict";

const SIDE = 32, LARGEST = 50e6, MOST = 100e6; // pixels of a side; bytes of a file, pixels of a picture
const PICTURES = ["image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp", "image/avif"];

/* (32 32 3) bytes of the central square; an Error with a sentence for the reader where that is impossible.  A picture is
   decoded by the browser as an image, which executes nothing; SVG is refused because it is a document. */
async function readPicture(blob) {
  if (!blob || !blob.size) throw new Error("The file is empty. Choose another picture.");
  if (blob.type === "image/svg+xml")
    throw new Error("An SVG is a drawing made of instructions, not of pixels. Save it as PNG and choose that.");
  if (!PICTURES.includes(blob.type))
    throw new Error(`This is not a picture that can be read here (${blob.type || "unknown kind"}). Choose a PNG or a JPEG.`);
  if (blob.size > LARGEST) throw new Error("The file is larger than 50 MB. Choose a smaller picture.");
  const damaged = () => { throw new Error("The picture is damaged or of a kind that this browser cannot read. Choose another."); };
  if (await pixelsOf(blob).catch(damaged) > MOST)
    throw new Error("The picture has more than 100 million pixels. Choose a smaller one.");
  const bitmap = await createImageBitmap(blob).catch(damaged);
  const bytes = squareBytes(bitmap, bitmap.width, bitmap.height);
  bitmap.close();
  return bytes;
}

/* How many pixels a picture has, from the head of its file: an image is decoded only where it is drawn.  A small file can
   hold a picture that fills the memory. */
async function pixelsOf(blob) {
  const image = new Image(), url = URL.createObjectURL(blob);
  try {
    await new Promise((resolve, reject) => { image.onload = resolve; image.onerror = reject; image.src = url; });
    return image.naturalWidth * image.naturalHeight;
  } finally {
    URL.revokeObjectURL(url);
  }
}

/* The central square in 32x32 pixels, on white where it is transparent.  Halved until nearly there: each step then
   averages, so that no pixel is skipped. */
function squareBytes(source, width, height) {
  if (!width || !height) throw new Error("The picture has no pixels. Choose another.");
  const side = Math.min(width, height);
  let size = Math.min(side, 2048);
  let made = element("canvas", { width: size, height: size });
  let context = made.getContext("2d");
  context.fillStyle = "#fff";
  context.fillRect(0, 0, size, size);
  context.imageSmoothingQuality = "high";
  context.drawImage(source, (width - side) / 2, (height - side) / 2, side, side, 0, 0, size, size);
  while (size !== SIDE) {
    const next = size > 2 * SIDE ? Math.ceil(size / 2) : SIDE;
    const smaller = element("canvas", { width: next, height: next });
    context = smaller.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(made, 0, 0, size, size, 0, 0, next, next);
    [made, size] = [smaller, next];
  }
  const data = context.getImageData(0, 0, SIDE, SIDE).data;
  return Uint8Array.from({ length: SIDE * SIDE * 3 }, (_, i) => data[Math.floor(i / 3) * 4 + i % 3]);
}

/* Bytes as the network sees them, and back. */
function normalise(bytes, { mean, std }) {
  const x = newMap(SIDE, SIDE, 3);
  for (let i = 0; i < bytes.length; i++) x.data[i] = (bytes[i] / 255 - mean[i % 3]) / std[i % 3];
  return x;
}

function denormalise(x, { mean, std }) {
  return Uint8ClampedArray.from(x.data, (v, i) => Math.round(255 * (v * std[i % 3] + mean[i % 3])));
}

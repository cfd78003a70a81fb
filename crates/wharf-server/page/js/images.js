// @ts-check
/** Images for prompts: scaled to a size that agents take. */

const MAX_SIDE = 2000;

/** Returns the image, smaller if it is large. @param {File} file @returns {Promise<Blob>} */
export async function scaleImage(file) {
  if (file.type === "image/gif") return file;
  const bitmap = await createImageBitmap(file).catch(() => null);
  if (!bitmap) return file;
  const scale = MAX_SIDE / Math.max(bitmap.width, bitmap.height);
  if (scale >= 1 && file.size < 4 << 20) return file;
  const factor = Math.min(1, scale);
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(bitmap.width * factor);
  canvas.height = Math.round(bitmap.height * factor);
  canvas.getContext("2d")?.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  const kind = file.type === "image/png" ? "image/png" : "image/jpeg";
  return new Promise((resolve) => canvas.toBlob((blob) => resolve(blob ?? file), kind, 0.88));
}

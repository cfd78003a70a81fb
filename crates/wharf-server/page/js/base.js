// @ts-check
/** The address of the host: the directory that the page was loaded from, so that it works below any prefix. */
export const BASE = new URL(".", document.baseURI);

/**
 * Returns the address of a route of the host.
 * @param {string} path without a leading slash
 */
export function routeUrl(path) {
  return new URL(path.replace(/^\//, ""), BASE).href;
}

// @ts-check
/** The service worker: shows push messages and opens the page where they point. It keeps no data of sessions. */
const worker = /** @type {any} */ (self);

worker.addEventListener("install", () => worker.skipWaiting());
worker.addEventListener("activate", (/** @type {any} */ event) => event.waitUntil(worker.clients.claim()));

worker.addEventListener("push", (/** @type {any} */ event) => {
  let message = { title: "Wharf", body: "A session needs you.", tag: "wharf", target: "#/" };
  try {
    message = { ...message, ...event.data.json() };
  } catch {
    // Every push has to show something, also one that cannot be read.
  }
  const target = String(message.target).startsWith("#/") ? String(message.target) : "#/";
  event.waitUntil(
    worker.registration.showNotification(message.title, {
      body: message.body,
      tag: message.tag,
      icon: "page/VERSION/icons/icon-192.png",
      data: { target },
    }),
  );
});

worker.addEventListener("notificationclick", (/** @type {any} */ event) => {
  event.notification.close();
  const target = event.notification.data?.target ?? "#/";
  event.waitUntil(
    (async () => {
      const windows = await worker.clients.matchAll({ type: "window", includeUncontrolled: true });
      const open = windows.find((/** @type {any} */ one) => one.url.startsWith(worker.registration.scope));
      if (open) {
        await open.focus();
        open.postMessage({ target });
      } else await worker.clients.openWindow(worker.registration.scope + target);
    })(),
  );
});

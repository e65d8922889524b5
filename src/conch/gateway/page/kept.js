/** Keep files, their answers and the corrections in the browser: a reload loses none of them. */

/**
 * @typedef {{id: string, opened: number, name: string, file: File | null, answers: any[]}} Work
 *   Without a file if the browser has no room for it.
 */

/** Files that are kept: the ones that were opened last. */
const MOST = 10;
// Apart, as a file would be written again with every correction.
const [WORKS, CORRECTIONS] = ["works", "corrections"];

/** @type {Promise<IDBDatabase> | undefined} */
let opening;

/** @returns {Promise<IDBDatabase>} */
function database() {
  opening ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("conch", 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore(WORKS, { keyPath: "id" }).createIndex("opened", "opened");
      request.result.createObjectStore(CORRECTIONS);
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return opening;
}

/**
 * Return what a request yields, when all that was asked for is written.
 * @param {IDBTransactionMode} mode
 * @param {(works: IDBObjectStore, corrections: IDBObjectStore) => IDBRequest} ask
 * @returns {Promise<any>}
 * @throws {DOMException} The browser keeps nothing, or has no room.
 */
async function transact(mode, ask) {
  const transaction = (await database()).transaction([WORKS, CORRECTIONS], mode);
  const request = ask(transaction.objectStore(WORKS), transaction.objectStore(CORRECTIONS));
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve(request.result);
    transaction.onabort = () => reject(transaction.error);
  });
}

/**
 * Write at once, without another look: the page may be left in the next moment.
 * @param {(works: IDBObjectStore, corrections: IDBObjectStore) => IDBRequest} ask
 * @returns {Promise<any>}
 * @throws {DOMException} The browser keeps nothing, or has no room.
 */
function write(ask) {
  return transact("readwrite", (works, corrections) => {
    const request = ask(works, corrections);
    works.transaction.commit();
    return request;
  });
}

/**
 * Keep a file with its answers and their corrections; the oldest one beyond MOST goes.
 * @param {Work} work
 * @param {import("./corrections.js").Corrections[]} corrections Of each answer.
 */
export async function keep(work, corrections) {
  const put = (item) =>
    write((works, kept) => {
      works.put(item);
      return kept.put(corrections, work.id);
    });
  try {
    await put(work).catch(() => put({ ...work, file: null }));
  } catch (error) {
    // Corrections to come must not meet older answers.
    await forget(work.id);
    throw error;
  }
  const ids = await transact("readonly", (works) => works.index("opened").getAllKeys());
  for (const id of ids.slice(0, -MOST)) await forget(id);
}

/**
 * Note that a kept file is opened now.
 * @param {string} id
 * @returns {Promise<void>}
 */
export function touch(id) {
  return transact("readwrite", (works) => {
    const request = works.get(id);
    request.onsuccess = () => works.put({ ...request.result, opened: Date.now() });
    return request;
  });
}

/**
 * @param {string} id
 * @param {import("./corrections.js").Corrections[]} corrections Of each answer.
 * @returns {Promise<void>}
 */
export function keepCorrections(id, corrections) {
  // Browsers clone the fields of an object, and not its class.
  return write((_, kept) => kept.put(corrections, id));
}

/**
 * Return what is kept of a file.
 * @param {string} id
 * @returns {Promise<(Work & {corrections: any[]}) | null>}
 */
export async function kept(id) {
  const work = await transact("readonly", (works) => works.get(id));
  const corrections = await transact("readonly", (_, all) => all.get(id));
  return work ? { ...work, corrections: corrections ?? [] } : null;
}

/**
 * @param {string} id
 * @returns {Promise<void>}
 */
export function forget(id) {
  return write((works, corrections) => {
    corrections.delete(id);
    return works.delete(id);
  });
}

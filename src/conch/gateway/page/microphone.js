/** Open a microphone and hand on its frames: 40 ms of s16le at 16 kHz, mono. */

/** Why there is no sound from a microphone, in words for the one who speaks. */
export class MicrophoneError extends Error {}

const REASONS = {
  NotAllowedError:
    "The browser was not allowed to use the microphone. Allow it in the site settings " +
    "(the icon next to the address), then try again.",
  NotFoundError: "No microphone was found. Plug one in, or choose a file instead.",
  NotReadableError: "The microphone is in use by another program, or does not answer.",
  OverconstrainedError: "The chosen microphone is not there any more. Choose another one.",
};
/** Decibels below which there is no sound. */
export const MUTED_DB = -85;
/** Milliseconds after which a browser that does not answer counts as paused. */
const ANSWER_MS = 1000;

/**
 * @typedef {object} Hooks
 * @property {(frame: {bytes: ArrayBuffer, level: number}) => void} onFrame Level in decibels.
 * @property {() => void} onGone The device went away.
 * @property {(isPaused: boolean) => void} onPause The browser gives no sound, or gives it again.
 *
 * @typedef {{stop: () => Promise<void>}} Microphone `stop` hands on the last frame first.
 */

/**
 * Open a microphone.
 * @param {object} choice
 * @param {string} choice.deviceId Nothing for the browser's own choice.
 * @param {boolean} choice.echoCancellation
 * @param {boolean} choice.noiseSuppression
 * @param {boolean} choice.autoGainControl
 * @param {Hooks} hooks
 * @returns {Promise<Microphone>}
 * @throws {MicrophoneError} Then the microphone is off.
 */
export async function openMicrophone(choice, hooks) {
  if (!navigator.mediaDevices?.getUserMedia) {
    throw new MicrophoneError(
      "The browser gives the microphone to pages on https or localhost only. Open this page by " +
        "the name localhost, or put TLS in front of the server. Files work here as well.",
    );
  }
  const { deviceId, ...switches } = choice;
  const audio = { ...switches, ...(deviceId && { deviceId: { exact: deviceId } }) };
  const stream = await navigator.mediaDevices.getUserMedia({ audio }).catch((error) => {
    throw new MicrophoneError(REASONS[error.name] ?? `No sound: ${error.message}`);
  });
  try {
    return await captured(stream, hooks).catch((error) => {
      // Firefox takes no microphone into a context of another rate.
      const { sampleRate } = stream.getAudioTracks()[0].getSettings();
      if (error.name !== "NotSupportedError" || !sampleRate) throw error;
      return captured(stream, hooks, { sampleRate });
    });
  } catch (error) {
    stream.getTracks().forEach((track) => track.stop());
    if (error instanceof MicrophoneError) throw error;
    throw new MicrophoneError(`The browser cannot read the microphone: ${error.message}`);
  }
}

/**
 * Capture the frames of a stream.
 * @param {MediaStream} stream
 * @param {Hooks} hooks
 * @param {AudioContextOptions} [options]
 * @returns {Promise<Microphone>}
 */
async function captured(stream, { onFrame, onGone, onPause }, options) {
  const context = new AudioContext(options);
  let flushed = () => {};
  try {
    await context.audioWorklet.addModule(new URL("capture_worklet.js", import.meta.url).href);
    const node = new AudioWorkletNode(context, "conch-capture", { numberOfOutputs: 1 });
    node.port.onmessage = ({ data }) => (data === "flushed" ? flushed() : onFrame(data));
    // Its output is silent; a node that leads nowhere is not run by every browser.
    context.createMediaStreamSource(stream).connect(node).connect(context.destination);
    await orInTime(context.resume());
    const track = stream.getAudioTracks()[0];
    track.addEventListener("ended", onGone);
    // It may have gone before anybody listened for that.
    if (track.readyState === "ended") throw new MicrophoneError("The microphone went away.");
    context.onstatechange = () => {
      onPause(context.state !== "running");
      // One that is interrupted comes back by itself, or not at all.
      if (context.state === "suspended") context.resume().catch(() => {});
    };
    if (context.state !== "running") onPause(true);

    const end = async () => {
      context.onstatechange = null;
      const done = new Promise((resolve) => (flushed = () => resolve(undefined)));
      node.port.postMessage("flush");
      // A context that the browser has suspended never answers.
      await orInTime(done);
      stream.getTracks().forEach((one) => one.stop());
      await context.close();
    };
    let ending = null;
    return { stop: () => (ending ??= end()) };
  } catch (error) {
    await context.close();
    throw error;
  }
}

/**
 * Wait for a promise, but not for ever.
 * @param {Promise<unknown>} promise
 */
async function orInTime(promise) {
  await Promise.race([promise, new Promise((resolve) => setTimeout(resolve, ANSWER_MS))]);
}

/**
 * Return the microphones of this machine. Browsers give their names after the first permission.
 * @returns {Promise<MediaDeviceInfo[]>}
 */
export async function microphones() {
  const devices = (await navigator.mediaDevices?.enumerateDevices?.()) ?? [];
  return devices.filter((device) => device.kind === "audioinput" && device.deviceId);
}

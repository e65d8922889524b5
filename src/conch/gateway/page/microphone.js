/** Open a microphone and hand on its frames: 40 ms of s16le at 16 kHz, mono. */

/** Why there is no sound from a microphone, in words for the one who speaks. */
export class MicrophoneError extends Error {}

const REASONS = {
  NotAllowedError:
    "The browser was not allowed to use the microphone. Allow it in the site settings " +
    "(the icon beside the address), then press Speak again.",
  NotFoundError: "No microphone was found. Plug one in, or choose a file instead.",
  NotReadableError: "The microphone is in use by another program, or does not answer.",
  OverconstrainedError: "The chosen microphone is not there any more. Choose another one.",
};

/**
 * Open a microphone.
 * @param {object} choice
 * @param {string} choice.deviceId Nothing for the browser's own choice.
 * @param {boolean} choice.echoCancellation
 * @param {boolean} choice.noiseSuppression
 * @param {boolean} choice.autoGainControl
 * @param {(frame: {bytes: ArrayBuffer, level: number}) => void} onFrame Level in decibels.
 * @param {() => void} onGone The device went away.
 * @returns {Promise<{stop: () => Promise<void>}>} `stop` hands on the last frame first.
 * @throws {MicrophoneError}
 */
export async function openMicrophone(choice, onFrame, onGone) {
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
  const context = new AudioContext();
  try {
    await context.audioWorklet.addModule(new URL("capture_worklet.js", import.meta.url).href);
  } catch (error) {
    stream.getTracks().forEach((track) => track.stop());
    await context.close();
    throw new MicrophoneError(`The browser cannot read the microphone: ${error.message}`);
  }
  const node = new AudioWorkletNode(context, "conch-capture", { numberOfOutputs: 1 });
  let flushed = () => {};
  node.port.onmessage = ({ data }) => (data === "flushed" ? flushed() : onFrame(data));
  // Its output is silent; a node that leads nowhere is not run by every browser.
  context.createMediaStreamSource(stream).connect(node).connect(context.destination);
  await context.resume();
  stream.getAudioTracks()[0].addEventListener("ended", onGone);
  return {
    async stop() {
      const done = new Promise((resolve) => (flushed = () => resolve(undefined)));
      node.port.postMessage("flush");
      // A context that the browser has suspended never answers.
      await Promise.race([done, new Promise((resolve) => setTimeout(resolve, 1000))]);
      stream.getTracks().forEach((track) => track.stop());
      await context.close();
    },
  };
}

/**
 * Return the microphones of this machine. Their names are told after the first permission.
 * @returns {Promise<MediaDeviceInfo[]>}
 */
export async function microphones() {
  const devices = (await navigator.mediaDevices?.enumerateDevices?.()) ?? [];
  return devices.filter((device) => device.kind === "audioinput" && device.deviceId);
}

/** A button that records: one press begins a take, the next one hands it on. */

import { button } from "./dom.js";
import { MUTED_DB, MicrophoneError, openMicrophone } from "./microphone.js";
import { toWav } from "./pcm.js";

/**
 * @param {string} label
 * @param {object} settings
 * @param {() => any} settings.microphone The chosen device and switches.
 * @param {(take: File) => void} settings.onTake
 * @param {(error: Error) => void} settings.onError
 * @returns {HTMLButtonElement}
 */
export function takeButton(label, { microphone, onTake, onError }) {
  let takes = 0;
  /** Ends the take that runs, also one whose microphone is not open yet. */
  let end = null;
  const record = async () => {
    const ended = new Promise((resolve) => (end = () => resolve(undefined)));
    const frames = [];
    element.textContent = "Waiting for the microphone…";
    try {
      const onFrame = (frame) => frames.push(frame);
      const hooks = { onFrame, onGone: end, onPause: () => {} };
      const opened = await openMicrophone(microphone(), hooks);
      element.textContent = "Stop recording";
      await ended;
      await opened.stop();
      if (!frames.some(({ level }) => level > MUTED_DB)) {
        throw new MicrophoneError("No sound arrives. Is the microphone muted?");
      }
      takes += 1;
      const parts = frames.map(({ bytes }) => bytes);
      onTake(toWav(parts, `take-${takes}.wav`));
    } catch (error) {
      onError(error);
    } finally {
      end = null;
      element.textContent = label;
    }
  };
  const element = button(label, () => (end ? end() : record()));
  return element;
}

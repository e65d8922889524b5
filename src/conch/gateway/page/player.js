/** Play a file from any word, and tell which word is heard. */

export class Player {
  /**
   * @param {HTMLAudioElement} audio
   * @param {() => void} onUnplayable The browser cannot play the file.
   */
  constructor(audio, onUnplayable) {
    this.audio = audio;
    this.address = "";
    /** @type {Map<any, (seconds: number | null) => void>} By owner. */
    this.listeners = new Map();
    const follow = () => {
      this.tell(audio.currentTime);
      // `timeupdate` comes four times a second: too rare for words.
      if (!audio.paused) requestAnimationFrame(follow);
    };
    audio.addEventListener("play", follow);
    for (const event of ["play", "pause", "emptied"]) {
      audio.addEventListener(event, () => audio.classList.toggle("is-heard", !audio.paused));
    }
    audio.addEventListener("seeked", () => this.tell(audio.currentTime));
    audio.addEventListener("ended", () => this.tell(null));
    audio.addEventListener("error", () => this.address && onUnplayable());
  }

  /** @param {File | null} file */
  load(file) {
    if (this.address) URL.revokeObjectURL(this.address);
    this.listeners.clear();
    this.address = file ? URL.createObjectURL(file) : "";
    if (file) this.audio.src = this.address;
    else this.audio.removeAttribute("src");
  }

  /** Seconds of audio, or null while the browser does not know. */
  get duration() {
    return Number.isFinite(this.audio.duration) ? this.audio.duration : null;
  }

  /** @param {number} seconds */
  async playFrom(seconds) {
    this.audio.currentTime = seconds;
    // The error event handles audio that the browser cannot play.
    await this.audio.play().catch(() => {});
  }

  /**
   * @param {object} owner
   * @param {(seconds: number | null) => void} listener Gets the place that is heard.
   */
  follow(owner, listener) {
    this.listeners.set(owner, listener);
  }

  /** @param {number | null} seconds */
  tell(seconds) {
    this.listeners.forEach((listener) => listener(seconds));
  }
}

"""Whisper in CTranslate2: encoder, decoder and the times of its words."""

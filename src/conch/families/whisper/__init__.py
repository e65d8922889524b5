"""Whisper in CTranslate2: encoder, decoder and word times."""

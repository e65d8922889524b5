"""Kaldi's nnet3 models in Vosk's folders, by the package vosk."""

"""Kaldi's nnet3 models in Vosk's folders, by the package vosk.

The library of Vosk hangs where kaldifst was imported before it. So nothing here imports
`conch.decoding.graph`.
"""

"""Searches of Kaldi's models by Vosk.

The library of Vosk hangs where kaldifst was imported before it. So nothing here imports the search
in graphs.
"""

"""Silero VAD: where is speech?"""

"""Moonshine (Jeffries et al., 2024, https://arxiv.org/abs/2410.15608): English, any length."""

"""The CTC acoustic model: training, evaluation, export."""

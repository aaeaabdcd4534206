"""Planning a write: file sizing by partition, record sizes, partition deletion."""

"""Planning a write: the request, file sizing by partition, record sizes, partition deletion."""

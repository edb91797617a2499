"""Record batches: layout, compression, checking, building."""

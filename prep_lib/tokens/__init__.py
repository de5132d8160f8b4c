"""Documents become token ids: the tokenizer, and packing into rows of one length."""
